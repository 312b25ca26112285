// kv_transfer_params: how clients and routers carry a KV handover from the server that prefills to
// the one that decodes, in vLLM's protocol.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "core/kv_files.h"
#include "server/http/api_error.h"

namespace quire::server {

struct KvTransferParams {
  bool hands_over = false;                          // do_remote_decode
  std::shared_ptr<const KvHandover> handover = {};  // do_remote_prefill; null: there is nothing
};

// Names that are not known are left alone: connectors of other servers have their own.
ApiResult<KvTransferParams> read_kv_transfer_params(const boost::json::value& value);
// Goes into the answer of the server that prefills, and the request to the server that decodes.
boost::json::object kv_transfer_params_json(const KvHandover& handover,
                                            std::string_view request_id);

}  // namespace quire::server
