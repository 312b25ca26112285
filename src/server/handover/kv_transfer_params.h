// kv_transfer_params are the fields by which clients and routers pass a KV handover from the server
// that computes the prefill to the one that decodes, in vLLM's protocol.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "core/kv_files.h"
#include "server/http/api_error.h"

namespace quire::server {

struct KvTransferParams {
  bool hands_over = false;                          // do_remote_decode
  std::shared_ptr<const KvHandover> handover = {};  // do_remote_prefill; null: no handover
};

// Unknown names are ignored, because the connectors of other servers have names of their own.
ApiResult<KvTransferParams> read_kv_transfer_params(const boost::json::value& value);
// Returns the object for the answer of the prefill server and for the request to the decode server.
boost::json::object kv_transfer_params_json(const KvHandover& handover,
                                            std::string_view request_id);

}  // namespace quire::server
