#pragma once

#include "kernels/api/streams/residual_streams.h"

namespace quire::cpu {

void predict_streams(Stream& stream, const PredictStreamsParams& params);
void correct_streams(Stream& stream, const CorrectStreamsParams& params);
void match_magnitude(Stream& stream, const MatchMagnitudeParams& params);
void add_scaled(Stream& stream, const AddScaledParams& params);
void cut_below(Stream& stream, const CutBelowParams& params);

}  // namespace quire::cpu
