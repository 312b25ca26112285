// Parts of configuration reading that config.json and GGUF files share. Internal to models/.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "models/config_reader.h"
#include "models/model_config.h"
#include "weights/gguf/gguf.h"

namespace quire {

inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

// Parses a file that holds one JSON object. `where`, the file's name, begins error messages.
Result<boost::json::object> parse_config_object(std::string_view text, std::string_view where);

// Reads all fields of a family from an object with Hugging Face's keys. `where` begins error
// messages.
Result<ModelConfig> read_config_object(const Family& family, const boost::json::object& stated,
                                       std::string where);

// Reads rope_parameters (flat or one object per layer kind), or rope_scaling, rope_theta and
// rope_local_base_freq.
void read_rope(const ConfigReader& reader, ModelConfig& config);

// Reads which layers rotate: those that have a 1 in no_rope_layers, or by default all but every
// no_rope_layer_interval-th.
void read_rotating_layers(const ConfigReader& reader, ModelConfig& config);

// Reads Granite's multipliers of embedding, residual stream, scores and logits.
void read_granite_multipliers(const ConfigReader& reader, ModelConfig& config);

// Reads Granite's multipliers, and by layer_rope_theta which layers have a window and which rotate.
void read_granite_layers(const ConfigReader& reader, ModelConfig& config);

// Reads MiniCPM's multipliers.
void read_minicpm_multipliers(const ConfigReader& reader, ModelConfig& config);

// Returns the GGUF metadata under the keys of config.json.
Result<boost::json::object> gguf_config_object(const Family& family, const GgufFile& file);

}  // namespace quire
