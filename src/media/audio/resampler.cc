#include "media/audio/resampler.h"

#include <samplerate.h>

#include <utility>

namespace quire {

struct Resampler::State {
  SRC_STATE* converter = nullptr;
};

void Resampler::Delete::operator()(State* state) const {
  src_delete(state->converter);
  delete state;
}

Result<Resampler> Resampler::create(int32_t from, int32_t to) {
  if (from == to) return Resampler(nullptr, 1.0);
  const double ratio = static_cast<double>(to) / from;
  if (src_is_valid_ratio(ratio) == 0)
    return invalid_argument("audio: a rate of {} Hz cannot become one of {} Hz", from, to);
  int error = 0;
  std::unique_ptr<State, Delete> state(new State);
  state->converter = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error);
  if (state->converter == nullptr)
    return internal_error("audio: resampling failed: {}", src_strerror(error));
  return Resampler(std::move(state), ratio);
}

Status Resampler::put(std::span<const float> samples, bool is_end, std::vector<float>& out) {
  if (state_ == nullptr) {
    out.insert(out.end(), samples.begin(), samples.end());
    return {};
  }
  constexpr size_t kBlock = 8192;
  block_.resize(kBlock);
  SRC_DATA data{.data_in = samples.data(),
                .data_out = block_.data(),
                .input_frames = static_cast<long>(samples.size()),
                .output_frames = static_cast<long>(kBlock),
                .input_frames_used = 0,
                .output_frames_gen = 0,
                .end_of_input = is_end ? 1 : 0,
                .src_ratio = ratio_};
  do {
    if (const int error = src_process(state_->converter, &data); error != 0)
      return internal_error("audio: resampling failed: {}", src_strerror(error));
    out.insert(out.end(), block_.begin(), block_.begin() + data.output_frames_gen);
    data.data_in += data.input_frames_used;
    data.input_frames -= data.input_frames_used;
  } while (data.input_frames > 0 || data.output_frames_gen > 0);
  return {};
}

}  // namespace quire
