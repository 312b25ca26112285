// This header of the consumer has the same name as one of Quire's sources.
#pragma once

namespace consumer {
inline int result() { return 300; }
}  // namespace consumer
