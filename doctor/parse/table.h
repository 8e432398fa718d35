// Tables with a line of dashes below the head, as many tools of switches print them:
//
//     Port    TxQ    Counter/pkts
//   ---------  -----  --------------
//   Ethernet0    UC0           1,200
//
// The dashes say where each column begins and ends, so that a cell may be empty or hold blanks ("3.20 MB/s").
#pragma once

#include <string_view>
#include <vector>

#include "doctor/text.h"

namespace mroce::doctor {

struct DashColumns {
  std::vector<size_t> begins, ends;
  size_t size() const { return begins.size(); }
};

// Of a line of at least two groups of dashes; else none. At most 64 columns.
DashColumns dash_columns(std::string_view line);
// One for each column. Text that stands outside of a column belongs to the one that it touches.
std::vector<std::string_view> cells_of(std::string_view line, const DashColumns& columns);

}  // namespace mroce::doctor
