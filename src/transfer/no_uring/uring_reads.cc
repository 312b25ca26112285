#include "transfer/file_reads.h"

namespace quire {

std::unique_ptr<FileReads> make_uring_reads() { return nullptr; }

}  // namespace quire
