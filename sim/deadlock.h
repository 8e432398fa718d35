// Deadlock: packets that wait for each other in a circle, as pauses or missing credits can make them.
#pragma once

#include <string>

#include "sim/fabric.h"

namespace mroce::sim {

// Empty, or a sentence that names a circle of links. A link is blocked if packets wait on it and none may go;
// it waits for the blocked links of the next switch that hold packets which came in by it.
std::string find_deadlock(const Fabric& fabric);

}  // namespace mroce::sim
