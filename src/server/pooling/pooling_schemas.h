// These are the schemas of the bodies of the pooling routes, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kPoolingSchemas = R"json({
"TextInput": {"description":"A text, a list of texts, a list of token ids, or a list of such lists.","oneOf":[{"type":"string"},
  {"type":"array","minItems":1,"items":{"type":"string"}},{"type":"array","minItems":1,"items":{"type":"integer"}},
  {"type":"array","minItems":1,"items":{"type":"array","minItems":1,"items":{"type":"integer"}}}]},
"Texts": {"description":"A text, or a list of texts or of objects with \"text\".","oneOf":[{"type":"string"},
  {"type":"array","minItems":1,"items":{"type":["string","object"]}}]},
"Truncation": {"type":["integer","null"],"minimum":-1,"description":"Longer texts are cut to so many tokens; -1: to the model's length. Without it they are refused."},
"EmbeddingsRequest": {"type":"object","required":["input"],"properties":{"model":{"type":["string","null"]},"input":{"$ref":"#/components/schemas/TextInput"},
  "encoding_format":{"type":["string","null"],"enum":["float","base64","bytes",null]},"dimensions":{"type":["integer","null"],"minimum":1},
  "task":{"type":["string","null"],"description":"One of the tasks that the model has adapters for."},
  "truncate_prompt_tokens":{"$ref":"#/components/schemas/Truncation"},"truncation_side":{"type":["string","null"],"enum":["left","right",null]},
  "add_special_tokens":{"type":["boolean","null"]},"use_activation":{"type":["boolean","null"],"description":"false: vectors are not scaled to length 1."},"user":{"type":["string","null"]}}},
"EmbeddingsResponse": {"type":"object","required":["object","data","model","usage"],"properties":{"id":{"type":"string"},"object":{"type":"string","const":"list"},
  "created":{"type":"integer"},"model":{"type":"string"},"data":{"type":"array","items":{"type":"object","required":["index","object","embedding"],
  "properties":{"index":{"type":"integer"},"object":{"type":"string"},"embedding":{"type":["array","string"],"items":{"type":"number"}}}}},"usage":{"$ref":"#/components/schemas/Usage"}}},
"CohereEmbedRequest": {"type":"object","required":["texts"],"properties":{"model":{"type":["string","null"]},"texts":{"$ref":"#/components/schemas/Texts"},
  "task":{"type":["string","null"]},"input_type":{"type":["string","null"]},"output_dimension":{"type":["integer","null"],"minimum":1},"truncate":{"type":["string","null"],"enum":["NONE","START","END",null]},
  "embedding_types":{"type":["array","null"],"items":{"type":"string"}}}},
"CohereEmbedResponse": {"type":"object","required":["id","embeddings"],"properties":{"id":{"type":"string"},"embeddings":{"type":"object"},
  "texts":{"type":"array","items":{"type":"string"}},"meta":{"type":"object"},"response_type":{"type":"string"}}},
"PoolingRequest": {"type":"object","required":["input"],"properties":{"model":{"type":["string","null"]},"input":{"$ref":"#/components/schemas/TextInput"},
  "task":{"type":["string","null"],"enum":["embed","classify","token_embed","token_classify",null]},"truncate_prompt_tokens":{"$ref":"#/components/schemas/Truncation"}}},
"PoolingResponse": {"type":"object","required":["object","data"],"properties":{"id":{"type":"string"},"object":{"type":"string"},"data":{"type":"array","items":{"type":"object"}},
  "usage":{"$ref":"#/components/schemas/Usage"}}},
"ClassifyResponse": {"type":"object","required":["object","data"],"properties":{"id":{"type":"string"},"object":{"type":"string"},"data":{"type":"array","items":{"type":"object",
  "properties":{"index":{"type":"integer"},"label":{"type":"string"},"probs":{"type":"array","items":{"type":"number"}},"num_classes":{"type":"integer"}}}},
  "usage":{"$ref":"#/components/schemas/Usage"}}},
"ScoreRequest": {"type":"object","description":"One text against many, or as many against as many; queries and documents are other names.","properties":{"model":{"type":["string","null"]},
  "text_1":{"$ref":"#/components/schemas/Texts"},"text_2":{"$ref":"#/components/schemas/Texts"},"truncate_prompt_tokens":{"$ref":"#/components/schemas/Truncation"}}},
"ScoreResponse": {"type":"object","required":["object","data"],"properties":{"id":{"type":"string"},"object":{"type":"string"},"data":{"type":"array","items":{"type":"object",
  "properties":{"index":{"type":"integer"},"object":{"type":"string"},"score":{"type":"number"}}}},"usage":{"$ref":"#/components/schemas/Usage"}}},
"RerankRequest": {"type":"object","required":["query","documents"],"properties":{"model":{"type":["string","null"]},"query":{"type":"string"},
  "documents":{"$ref":"#/components/schemas/Texts"},"top_n":{"type":["integer","null"],"minimum":0},"return_documents":{"type":["boolean","null"]},
  "truncate_prompt_tokens":{"$ref":"#/components/schemas/Truncation"}}},
"RerankResponse": {"type":"object","required":["id","results"],"properties":{"id":{"type":"string"},"model":{"type":"string"},"usage":{"type":"object"},
  "results":{"type":"array","items":{"type":"object","properties":{"index":{"type":"integer"},"document":{"type":"object"},"relevance_score":{"type":"number"}}}}}}
})json";

}  // namespace quire::server
