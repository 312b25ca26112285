// This program prints the differences between tokenizers and a reference library. Each line of the
// given files is one golden (golden.h) with its "name". The exit code is 1 if anything differs.
// tools/compare_random_tokenizers.py runs it.
#include <fmt/format.h>

#include <fstream>

#include "tokenizer/testing/golden.h"

namespace quire {
namespace {

Differences differences_of(const boost::json::object& golden) {
  const auto tokenizer = load_golden_tokenizer(golden);
  if (!tokenizer.ok()) return {"does not load: " + std::string(tokenizer.status().message())};
  Differences all = encode_differences(**tokenizer, golden);
  for (const auto& differences :
       {decode_differences(**tokenizer, golden), piece_differences(**tokenizer, golden)}) {
    all.insert(all.end(), differences.begin(), differences.end());
  }
  return all;
}

int run(int num_files, char** files) {
  int num_same = 0;
  int num_different = 0;
  for (int i = 0; i < num_files; ++i) {
    std::ifstream file(files[i]);
    for (std::string line; std::getline(file, line);) {
      const boost::json::value document = boost::json::parse(line);
      const Differences differences = differences_of(document.as_object());
      ++(differences.empty() ? num_same : num_different);
      for (const std::string& difference : differences) {
        fmt::print("{}: {}\n", std::string(document.at("name").as_string()), difference);
      }
    }
  }
  fmt::print("{} tokenizers agree, {} differ\n", num_same, num_different);
  return num_different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) { return quire::run(argc - 1, argv + 1); }
