// Bundles of many hosts in one file, however they came together.
//
// Launchers mix the lines of hosts and label them: "nodeA: …" (pdsh, clush), "3: …" (srun --label),
// "[1,3]<stdout>:…" (mpirun), or print a line before each ("nodeA | CHANGED | rc=0 >>", ansible); `cat` puts
// bundles one after the other. The lines of one label are put together again, in their order; what is then no
// JSON value is passed over line by line. No line of a bundle itself looks like one with a label, as it
// begins with a blank, a brace or a bracket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/bundle.h"

namespace mroce::doctor {

struct MergeProblem {
  std::string file;
  uint32_t line = 0;
  std::string reason;
};

// Each bundle in the text goes to `take`; what was wrong to `problem`. Answers how many bundles there were.
size_t find_bundles(std::string_view text, const std::string& file, const std::function<void(Bundle&&)>& take,
                    const std::function<void(MergeProblem&&)>& problem);

}  // namespace mroce::doctor
