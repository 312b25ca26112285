#include "transfer/file_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace quire {
namespace {

// An unnamed file of random bytes.
class Sample {
 public:
  explicit Sample(size_t size, uint32_t seed) : bytes_(size) {
    std::mt19937 rng(seed);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(rng());
    char path[] = "/tmp/file_reads_test-XXXXXX";
    fd_ = ::mkstemp(path);
    ::unlink(path);
    EXPECT_EQ(::write(fd_, bytes_.data(), bytes_.size()), std::ssize(bytes_));
  }
  ~Sample() { ::close(fd_); }
  int fd() const { return fd_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  int fd_ = -1;
};

class FileReadsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    reads_ = GetParam() ? make_uring_reads() : make_pread_reads();
    if (reads_ == nullptr) GTEST_SKIP() << "no io_uring here";
  }
  std::unique_ptr<FileReads> reads_;
};

TEST_P(FileReadsTest, EachPieceComesWholeAndOnce) {
  std::mt19937 rng(5);
  for (int round = 0; round < 40; ++round) {
    const Sample sample(1 + rng() % 300'000, static_cast<uint32_t>(round));
    const size_t size = sample.bytes().size();
    std::vector<std::vector<std::byte>> memory(rng() % 100);
    std::vector<FilePiece> pieces;
    for (std::vector<std::byte>& piece : memory) {
      const size_t offset = rng() % size;
      piece.resize(1 + rng() % (size - offset));
      pieces.push_back({piece.data(), std::ssize(piece), static_cast<int64_t>(offset)});
    }
    std::vector<int> taken(pieces.size());
    const Status status = reads_->read(sample.fd(), pieces, [&](size_t i) -> Status {
      ++taken[i];
      const auto begin = sample.bytes().begin() + pieces[i].offset;
      EXPECT_TRUE(std::equal(memory[i].begin(), memory[i].end(), begin)) << i;
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int count) { return count == 1; }));
  }
}

TEST_P(FileReadsTest, AFileThatEndsEarlyIsDamage) {
  const Sample sample(1000, 1);
  std::vector<std::byte> memory(4000);
  const FilePiece pieces[] = {{memory.data(), 500, 0}, {memory.data() + 500, 600, 500}};
  const auto take = [](size_t) { return Status(); };
  EXPECT_EQ(reads_->read(sample.fd(), pieces, take).code(), StatusCode::kDataLoss);
  const FilePiece beyond[] = {{memory.data(), 1, 5000}};
  EXPECT_EQ(reads_->read(sample.fd(), beyond, take).code(), StatusCode::kDataLoss);
  EXPECT_EQ(reads_->read(-1, pieces, take).code(), StatusCode::kInternal);
}

// After a refusal, the memory of pieces that were being read is not written any more, and the next
// read starts anew.
TEST_P(FileReadsTest, ARefusalEndsTheReading) {
  const Sample sample(1 << 20, 2);
  std::vector<std::byte> memory(1 << 20);
  std::vector<FilePiece> pieces;
  for (int64_t at = 0; at < 1 << 20; at += 4096) pieces.push_back({memory.data() + at, 4096, at});
  for (int round = 0; round < 20; ++round) {
    int num_taken = 0;
    const Status status = reads_->read(sample.fd(), pieces, [&](size_t) -> Status {
      return ++num_taken == 7 ? Status(StatusCode::kDataLoss, "no") : Status();
    });
    EXPECT_EQ(status.message(), "no");
    EXPECT_EQ(num_taken, 7);
    std::fill(memory.begin(), memory.end(), std::byte{1});
    const std::vector<std::byte> before = memory;
    ::usleep(200);
    EXPECT_EQ(memory, before);
  }
  EXPECT_TRUE(reads_->read(sample.fd(), pieces, [](size_t) { return Status(); }).ok());
  EXPECT_EQ(memory, sample.bytes());
}

INSTANTIATE_TEST_SUITE_P(Reads, FileReadsTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ByUring" : "ByPread");
});

// Makes the system call fail with EPERM, as containers do.
bool forbid_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = 4, .filter = filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(FileReads, WhereIoUringIsForbiddenPreadDoesIt) {
  const Sample sample(1000, 3);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!forbid_io_uring()) ::_exit(77);
    const std::unique_ptr<FileReads> reads = make_file_reads();
    std::vector<std::byte> memory(1000);
    const FilePiece piece[] = {{memory.data(), 1000, 0}};
    const bool is_read = reads->read(sample.fd(), piece, [](size_t) { return Status(); }).ok();
    ::_exit(reads->name() == "pread" && is_read && memory == sample.bytes() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace quire
