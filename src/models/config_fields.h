// These are parts of configuration reading that the two formats share. They are not meant for other
// folders.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "models/config_reader.h"
#include "models/model_config.h"
#include "weights/gguf/gguf.h"

namespace quire {

inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

// Parses the object of a file. Messages begin with `where`, its name.
Result<boost::json::object> parse_config_object(std::string_view text, std::string_view where);

// Reads all fields of a family from an object with Hugging Face's keys. Messages begin with
// `where`.
Result<ModelConfig> read_config_object(const Family& family, const boost::json::object& stated,
                                       std::string where);

// Reads rope_parameters (flat or one per layer kind) or rope_scaling, rope_theta,
// rope_local_base_freq.
void read_rope(const ConfigReader& reader, ModelConfig& config);

// no_rope_layers says 1 for the layers that rotate; by default those but every
// no_rope_layer_interval-th do.
void read_rotating_layers(const ConfigReader& reader, ModelConfig& config);

// Reads Granite's multipliers of embedding, residual stream, scores and logits.
void read_granite_multipliers(const ConfigReader& reader, ModelConfig& config);

// Reads the same, and which layers see a window and which rotate, by layer_rope_theta.
void read_granite_layers(const ConfigReader& reader, ModelConfig& config);

// MiniCPM's.
void read_minicpm_multipliers(const ConfigReader& reader, ModelConfig& config);

// Returns the GGUF metadata under the keys that config.json would use.
Result<boost::json::object> gguf_config_object(const Family& family, const GgufFile& file);

}  // namespace quire
