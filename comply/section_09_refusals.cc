#include "comply/stream.h"
#include "comply/suite.h"

namespace mroce::comply {

void add_refusals(std::vector<Assertion>&) {}

}  // namespace mroce::comply
