// These are the functions that every template may call: range(), dict(), namespace(),
// strftime_now() …
#pragma once

#include <ctime>
#include <string_view>

#include "chat/jinja/run/nodes.h"
#include "chat/jinja/value/arguments.h"
#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

class Functions {
 public:
  // `now` is the time that strftime_now() prints. The other arguments must outlive this object.
  Functions(Heap& heap, CyclicNodes& cyclic, const std::tm& now)
      : heap_(heap), cyclic_(cyclic), now_(now) {}

  // Returns the function of that name, or None when there is none.
  static Value named(std::string_view name);
  Value call(Function function, const Arguments& arguments);

 private:
  Value make_dict_of(const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  Value format_now(const Arguments& arguments);

  Heap& heap_;
  CyclicNodes& cyclic_;
  const std::tm now_;
};

}  // namespace quire::jinja
