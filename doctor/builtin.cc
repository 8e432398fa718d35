#include "core/base/assert.h"
#include "doctor/data.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

const Rulebook& builtin_rulebook() {
  static const Rulebook kBook = [] {
    auto book = load_rulebook(kCountersToml, kThresholdsToml, kRulesToml);
    if (!book) std::fprintf(stderr, "mroce: the built-in rules are broken: %s\n", book.error().c_str());
    MROCE_ASSERT(book.has_value());
    return std::move(*book);
  }();
  return kBook;
}

}  // namespace mroce::doctor
