// Reads the files of sentence-transformers, which describe the texts that a model reads.
#pragma once

#include "base/result.h"
#include "chat/sentence_texts.h"
#include "weights/files/model_files.h"

namespace quire {

// Reads config_sentence_transformers.json and sentence_bert_config.json; the result is empty if
// they are absent. kInvalidArgument: they are malformed, or name a default prompt that does not
// exist.
Result<SentenceTexts> read_sentence_texts(const ModelFiles& files);

}  // namespace quire
