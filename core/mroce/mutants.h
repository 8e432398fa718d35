// The switch behind core/mroce/mutants.def: MROCE_MUTANT(kName) in a method of Engine::Impl is true in a
// wrong engine of that kind, and the constant false in every build that is not made to test the tests.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mroce {

#ifdef MROCE_MUTANTS
enum class Mutant : uint8_t {
  kNone,
#define MROCE_MUTANT_ROW(constant, name, section, sentence) constant,
#include "core/mroce/mutants.def"
#undef MROCE_MUTANT_ROW
};

struct MutantRow {
  Mutant mutant;
  std::string_view name;
  std::string_view section;
  std::string_view sentence;
};
inline constexpr auto kMutants = std::to_array<MutantRow>({
#define MROCE_MUTANT_ROW(constant, name, section, sentence) {Mutant::constant, name, section, sentence},
#include "core/mroce/mutants.def"
#undef MROCE_MUTANT_ROW
});

#define MROCE_MUTANT(name) (config.mutant == Mutant::name)
#else
#define MROCE_MUTANT(name) false
#endif

}  // namespace mroce
