#include "engine/structured/compiled_grammars.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace quire {
namespace {

using grammar::GrammarSource;

// Returns different keys for different sources. Lengths separate the parts.
std::string key_of(const GrammarSource& source) {
  std::string key = fmt::format("{}:{}{}{}:", static_cast<int>(source.kind),
                                static_cast<int>(source.json.whitespace),
                                source.json.closes_objects, source.json.any_order);
  const auto add = [&](std::string_view part) { key += fmt::format("{}:{}", part.size(), part); };
  add(source.json.whitespace_pattern);
  add(source.text);
  for (const std::string& choice : source.choices) add(choice);
  return key;
}

}  // namespace

CompiledGrammars::CompiledGrammars(MakeVocabulary make_vocabulary,
                                   const CompiledGrammarsOptions& options)
    : make_vocabulary_(std::move(make_vocabulary)), options_(options) {
  for (int32_t i = 0; i < options_.num_threads; ++i) threads_.emplace_back([this] { run(); });
}

CompiledGrammars::~CompiledGrammars() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<std::shared_ptr<const GrammarTicket>> CompiledGrammars::get(const GrammarSource& source,
                                                                   const std::string& tenant) {
  std::string key = key_of(source);
  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    const GrammarTicket& ticket = *known->second->ticket;
    const bool is_crowded =
        ticket.ready() && ticket.grammar().ok() && grammar::is_crowded(**ticket.grammar());
    if (!is_crowded) {
      ++counts_.num_hits;
      entries_.splice(entries_.begin(), entries_, known->second);
      return std::shared_ptr<const GrammarTicket>(known->second->ticket);
    }
    remove(known->second);
  }
  if (num_jobs_ >= options_.max_queued) {
    return resource_exhausted("structured outputs: {} grammars wait to be compiled", num_jobs_);
  }
  auto ticket = std::make_shared<GrammarTicket>();
  entries_.push_front({key, tenant, ticket, key.size()});
  by_key_[key] = entries_.begin();
  num_bytes_ += key.size();
  bytes_of_tenant_[tenant] += key.size();
  jobs_[tenant].push_back({source, std::move(key), ticket});
  ++num_jobs_;
  make_room();
  wake_.notify_one();
  return std::shared_ptr<const GrammarTicket>(std::move(ticket));
}

CompiledGrammars::Counts CompiledGrammars::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.num_entries = entries_.size();
  return counts;
}

// Takes the next job of the tenant whose turn it is. Returns false when closed.
bool CompiledGrammars::take(Job& job) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return closed_ || num_jobs_ > 0; });
  if (closed_) return false;
  auto turn = jobs_.upper_bound(last_tenant_);
  if (turn == jobs_.end()) turn = jobs_.begin();
  last_tenant_ = turn->first;
  job = std::move(turn->second.front());
  turn->second.pop_front();
  --num_jobs_;
  if (turn->second.empty()) jobs_.erase(turn);
  return true;
}

void CompiledGrammars::run() {
  Job job;
  while (take(job)) {
    try {
      std::call_once(vocabulary_once_, [this] { vocabulary_ = make_vocabulary_(); });
      job.source.special_tokens = vocabulary_->special_tokens();
      finish(job, grammar::compile(job.source, options_.limits));
    } catch (const std::exception& e) {  // out of memory
      finish(job, internal_error("structured outputs: {}", e.what()));
    }
    job = {};
  }
}

void CompiledGrammars::finish(const Job& job,
                              Result<std::shared_ptr<const grammar::Grammar>> grammar) {
  const std::lock_guard lock(mutex_);
  ++(grammar.ok() ? counts_.num_compiled : counts_.num_failed);
  const auto entry = by_key_.find(job.key);
  if (entry != by_key_.end() && entry->second->ticket == job.ticket && grammar.ok()) {
    const size_t added = grammar::memory_bytes(**grammar);
    entry->second->num_bytes += added;
    num_bytes_ += added;
    bytes_of_tenant_[entry->second->tenant] += added;
  }
  job.ticket->vocabulary_ = vocabulary_.get();
  job.ticket->grammar_ = std::move(grammar);
  job.ticket->ready_.store(true, std::memory_order_release);
  make_room();
}

// Drops grammars until the rest fit. The owner of a ticket keeps its grammar.
void CompiledGrammars::make_room() {
  while (entries_.size() > 1 &&
         (num_bytes_ > options_.max_cache_bytes || entries_.size() > options_.max_cache_entries)) {
    const auto most =
        std::max_element(bytes_of_tenant_.begin(), bytes_of_tenant_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    auto oldest = std::prev(entries_.end());
    while (oldest->tenant != most->first) --oldest;
    remove(oldest);
  }
}

void CompiledGrammars::remove(Entries::iterator entry) {
  num_bytes_ -= entry->num_bytes;
  const auto tenant = bytes_of_tenant_.find(entry->tenant);
  tenant->second -= entry->num_bytes;
  if (tenant->second == 0) bytes_of_tenant_.erase(tenant);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace quire
