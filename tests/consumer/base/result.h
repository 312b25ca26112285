// A header of the consumer that is named as one of Quire's sources is.
#pragma once

namespace consumer {
inline int result() { return 300; }
}  // namespace consumer
