// CompiledGrammars compiles the grammars of requests on threads of its own, and keeps them for
// later requests.
//
// Everything is bounded: the jobs that wait, the bytes of grammars that are kept, and the cost of
// compiling each. Tenants take turns: their jobs are compiled one tenant after the other, and the
// first grammar to be dropped is the oldest one of the tenant that has most. Failures are kept too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/structured/structured_output_options.h"
#include "grammar/grammar.h"

namespace quire {

// A grammar that is being compiled. Any thread may use the ticket.
class GrammarTicket {
 public:
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Precondition: ready().
  const Result<std::shared_ptr<const grammar::Grammar>>& grammar() const { return grammar_; }
  const grammar::Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  friend class CompiledGrammars;
  Result<std::shared_ptr<const grammar::Grammar>> grammar_ = internal_error("not compiled yet");
  const grammar::Vocabulary* vocabulary_ = nullptr;
  std::atomic<bool> ready_{false};
};

class CompiledGrammars {
 public:
  // Called once, on a thread of the pool, before the first grammar is compiled.
  using MakeVocabulary = std::function<std::unique_ptr<grammar::Vocabulary>()>;
  CompiledGrammars(MakeVocabulary make_vocabulary, const CompiledGrammarsOptions& options);
  ~CompiledGrammars();  // waits for the running compilations

  // Returns a ticket for the grammar of `source`, which is compiled already or will be.
  // kResourceExhausted: too many wait.
  Result<std::shared_ptr<const GrammarTicket>> get(const grammar::GrammarSource& source,
                                                   const std::string& tenant);

  struct Counts {
    uint64_t num_hits = 0;
    uint64_t num_compiled = 0;
    uint64_t num_failed = 0;
    size_t num_entries = 0;
  };
  Counts counts() const;

 private:
  struct Entry {
    std::string key;
    std::string tenant;
    std::shared_ptr<GrammarTicket> ticket;
    size_t num_bytes = 0;
  };
  struct Job {
    grammar::GrammarSource source;
    std::string key;
    std::shared_ptr<GrammarTicket> ticket;
  };
  using Entries = std::list<Entry>;  // most recently used first

  void run();
  bool take(Job& job);
  void finish(const Job& job, Result<std::shared_ptr<const grammar::Grammar>> grammar);
  void make_room();
  void remove(Entries::iterator entry);

  const MakeVocabulary make_vocabulary_;
  const CompiledGrammarsOptions options_;
  std::once_flag vocabulary_once_;
  std::unique_ptr<grammar::Vocabulary> vocabulary_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool closed_ = false;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_key_;
  std::map<std::string, size_t> bytes_of_tenant_;
  size_t num_bytes_ = 0;
  std::map<std::string, std::deque<Job>> jobs_;  // by tenant
  size_t num_jobs_ = 0;
  std::string last_tenant_;  // the tenant of the job taken last
  Counts counts_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
