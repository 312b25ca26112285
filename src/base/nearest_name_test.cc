#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

const std::vector<std::string> kFlags{
    "--max-model-len", "--max-num-seqs", "--port", "--dtype", "-p", "--top-k", "--top-p"};

std::string nearest(std::string_view typed) { return nearest_name(typed, kFlags).value_or("none"); }

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("--max-modle-len"), "--max-model-len");  // swapped
  EXPECT_EQ(nearest("--max-model-length"), "--max-model-len");
  EXPECT_EQ(nearest("--prot"), "--port");
  EXPECT_EQ(nearest("--dtyp"), "--dtype");
  EXPECT_EQ(nearest("--ddtype"), "--dtype");
  EXPECT_EQ(nearest("max_num_seqs"), "--max-num-seqs");
  EXPECT_EQ(nearest("--top_p"), "--top-p");
}

TEST(NearestName, SaysNothingOfWhatIsFarAway) {
  EXPECT_EQ(nearest("--frobnicate"), "none");
  EXPECT_EQ(nearest("serve"), "none");
  EXPECT_EQ(nearest(std::string(100'000, 'x')), "none");
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
}

TEST(NearestName, EndsAMessage) {
  EXPECT_EQ(did_you_mean("--dtyp", kFlags), "; did you mean --dtype?");
  EXPECT_EQ(did_you_mean("--dtype", kFlags), "");
  EXPECT_EQ(did_you_mean("--frobnicate", kFlags), "");
}

}  // namespace
}  // namespace quire
