// BeamSearch: one beam search, as arithmetic on candidates. It decides which beams go on with which
// tokens, and which texts are the best in the end. Its caller runs the model and sets the likeliest
// next tokens of each beam.
//
// Beams have places, 0 to width - 1. At first there is one beam, in place 0. A beam with
// continuations among the best stays in its place with the best of them; the other continuations
// take the places of beams that are given up. So if every beam goes on once, no beam moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/beam_search_params.h"
#include "core/sampling_params.h"
#include "core/step.h"

namespace quire {

class BeamSearch {
 public:
  // The beam in `place` continues the text of the beam in `parent` with `token_id`.
  struct Move {
    int32_t place = 0;
    int32_t parent = 0;
    TokenId token_id = 0;
  };
  struct Text {
    std::vector<TokenId> token_ids;       // including EOS
    std::vector<TokenLogprobs> logprobs;  // one per token if SamplingParams::logprobs asks for them
    bool stopped = false;                 // the text ends with EOS
    double score = 0;
  };

  // Of `params`, only max_tokens (at least 1), eos_token_ids, ignore_eos and logprobs are used.
  BeamSearch(int32_t width, int32_t num_prompt_tokens, const SamplingParams& params,
             const BeamSearchParams& rule);

  // Returns how many next tokens are needed of each beam, so that enough of them do not end it.
  static int32_t num_candidates(int32_t width, const SamplingParams& params);
  int32_t num_candidates() const { return num_candidates_; }

  // Sets the likeliest next tokens of the beam in `place`: candidates.top, likeliest first.
  void set_candidates(int32_t place, TokenLogprobs candidates);
  bool has_candidates(int32_t place) const { return has_candidates_[static_cast<size_t>(place)]; }
  // Returns the places of the beams that need candidates, best beam first.
  std::span<const int32_t> places() const { return places_; }
  bool done() const { return done_; }
  // Chooses the next beams and returns their moves, none if the search is over. Precondition: all
  // beams have their candidates.
  std::span<const Move> advance();
  // Returns the best texts of a finished search, best first; there are as many as the search is
  // wide.
  std::vector<Text> best() const;

 private:
  // A token in the tree of texts. Beams that share it also share all tokens before it.
  struct Node {
    int32_t parent = -1;
    TokenLogprobs token;  // its `top` is kept only if logprobs ask for it
  };
  struct Beam {
    int32_t node = -1;
    double logprob = 0;
    int32_t place = 0;
  };
  struct Candidate {
    int32_t beam = 0;   // into beams_
    int32_t index = 0;  // into the beam's candidates
    TokenId token_id = 0;
    double logprob = 0;
    bool ends = false;
  };
  struct Finished {
    int32_t node = -1;
    double score = 0;
    bool stopped = false;
  };

  void collect();
  void finish_vllm();
  void finish_hugging_face();
  void finish(const Candidate& candidate, double score, bool stopped);
  void go_on();
  void assign_places();
  bool is_over() const;
  double score(double logprob, int32_t length) const;
  int32_t add_node(const Candidate& candidate);
  bool ends(TokenId token_id) const;

  const int32_t width_;
  const int32_t num_prompt_tokens_;
  const int32_t max_tokens_;
  const int32_t num_candidates_;
  const std::optional<int32_t> num_logprobs_;
  const std::vector<TokenId> eos_token_ids_;  // empty if EOS does not end a text
  const BeamSearchParams rule_;

  int32_t num_tokens_ = 0;  // of each beam
  bool done_ = false;
  std::vector<Node> nodes_;
  std::vector<Beam> beams_;            // best first
  std::vector<Finished> finished_;     // best first, at most width_
  std::vector<TokenLogprobs> rows_;    // by place
  std::vector<bool> has_candidates_;   // by place
  std::vector<Candidate> candidates_;  // of the step, best first
  std::vector<int32_t> places_;
  std::vector<Move> moves_;
};

}  // namespace quire
