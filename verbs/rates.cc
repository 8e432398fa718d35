// Static rates: the encoding, the multiple of 2.5 Gbit/s (where the signalling rate is one) and the data rate
// in Mbit/s as IBTA table "PathRecord:Rate" has them, FDR and later with the overhead of 64b/66b coding
// included.
#include <array>

#include "verbs/export.h"

namespace mroce::verbs {
namespace {

struct Row {
  ibv_rate rate;
  int multiple;  // -1: none
  int mbps;
};

constexpr std::array<Row, 23> kRates{{
    {IBV_RATE_2_5_GBPS, 1, 2500},     {IBV_RATE_5_GBPS, 2, 5000},         {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},     {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},    {IBV_RATE_80_GBPS, 32, 80000},      {IBV_RATE_120_GBPS, 48, 120000},
    {IBV_RATE_14_GBPS, -1, 14062},    {IBV_RATE_56_GBPS, -1, 56250},      {IBV_RATE_112_GBPS, -1, 112500},
    {IBV_RATE_168_GBPS, -1, 168750},  {IBV_RATE_25_GBPS, -1, 25781},      {IBV_RATE_100_GBPS, -1, 103125},
    {IBV_RATE_200_GBPS, -1, 206250},  {IBV_RATE_300_GBPS, -1, 309375},    {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},    {IBV_RATE_400_GBPS, 160, 425000},   {IBV_RATE_600_GBPS, 240, 637500},
    {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000},
}};

}  // namespace

VERBS_EXPORT(ibv_rate_to_mult);
int impl_ibv_rate_to_mult(ibv_rate rate) {
  for (const Row& row : kRates) {
    if (row.rate == rate) return row.multiple;
  }
  return -1;
}

VERBS_EXPORT(mult_to_ibv_rate);
ibv_rate impl_mult_to_ibv_rate(int multiple) {
  for (const Row& row : kRates) {
    if (row.multiple == multiple && multiple > 0) return row.rate;
  }
  return IBV_RATE_MAX;
}

VERBS_EXPORT(ibv_rate_to_mbps);
int impl_ibv_rate_to_mbps(ibv_rate rate) {
  for (const Row& row : kRates) {
    if (row.rate == rate) return row.mbps;
  }
  return -1;
}

VERBS_EXPORT(mbps_to_ibv_rate);
ibv_rate impl_mbps_to_ibv_rate(int mbps) {
  for (const Row& row : kRates) {
    if (row.mbps == mbps) return row.rate;
  }
  return IBV_RATE_MAX;
}

}  // namespace mroce::verbs
