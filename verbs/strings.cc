// Names of enumerated values. Programs print them and scripts look for them: the words are those that users
// of verbs know.
#include <array>

#include "verbs/export.h"

namespace mroce::verbs {
namespace {

template <size_t N>
const char* name_in(const std::array<const char*, N>& names, int value) {
  if (value < 0 || static_cast<size_t>(value) >= N || names[static_cast<size_t>(value)] == nullptr)
    return "unknown";
  return names[static_cast<size_t>(value)];
}

}  // namespace

VERBS_EXPORT(ibv_node_type_str);
const char* impl_ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kNames{nullptr,
                                                     "InfiniBand channel adapter",
                                                     "InfiniBand switch",
                                                     "InfiniBand router",
                                                     "iWARP NIC",
                                                     "usNIC",
                                                     "usNIC UDP",
                                                     "unspecified"};
  static_assert(IBV_NODE_CA == 1 && IBV_NODE_UNSPECIFIED == kNames.size() - 1);
  return name_in(kNames, type);
}

VERBS_EXPORT(ibv_port_state_str);
const char* impl_ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 6> kNames{
      "no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  static_assert(IBV_PORT_ACTIVE_DEFER == kNames.size() - 1);
  return name_in(kNames, state);
}

VERBS_EXPORT(ibv_event_type_str);
const char* impl_ibv_event_type_str(ibv_event_type type) {
  static constexpr std::array<const char*, 20> kNames{"CQ error",
                                                      "local work queue catastrophic error",
                                                      "invalid request local work queue error",
                                                      "local access violation work queue error",
                                                      "communication established",
                                                      "send queue drained",
                                                      "path migrated",
                                                      "path migration request error",
                                                      "local catastrophic error",
                                                      "port active",
                                                      "port error",
                                                      "LID change",
                                                      "P_Key change",
                                                      "SM change",
                                                      "SRQ catastrophic error",
                                                      "SRQ limit reached",
                                                      "last WQE reached",
                                                      "client reregistration",
                                                      "GID table change",
                                                      "WQ fatal"};
  static_assert(IBV_EVENT_CQ_ERR == 0 && IBV_EVENT_WQ_FATAL == kNames.size() - 1);
  return name_in(kNames, type);
}

VERBS_EXPORT(ibv_wc_status_str);
const char* impl_ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> kNames{"success",
                                                      "local length error",
                                                      "local QP operation error",
                                                      "local EE context operation error",
                                                      "local protection error",
                                                      "Work Request Flushed Error",
                                                      "memory management operation error",
                                                      "bad response error",
                                                      "local access error",
                                                      "remote invalid request error",
                                                      "remote access error",
                                                      "remote operation error",
                                                      "transport retry counter exceeded",
                                                      "RNR retry counter exceeded",
                                                      "local RDD violation error",
                                                      "remote invalid RD request",
                                                      "aborted error",
                                                      "invalid EE context number",
                                                      "invalid EE context state",
                                                      "fatal error",
                                                      "response timeout error",
                                                      "general error",
                                                      "TM error",
                                                      "TM software rendezvous"};
  static_assert(IBV_WC_SUCCESS == 0 && IBV_WC_TM_RNDV_INCOMPLETE == kNames.size() - 1);
  return name_in(kNames, status);
}

VERBS_EXPORT(ibv_wr_opcode_str);
const char* impl_ibv_wr_opcode_str(ibv_wr_opcode opcode) {
  static constexpr std::array<const char*, 16> kNames{"rdma-write",
                                                      "rdma-write-with-imm",
                                                      "send",
                                                      "send-with-imm",
                                                      "rdma-read",
                                                      "atomic-cmp-and-swp",
                                                      "atomic-fetch-and-add",
                                                      "local-inv",
                                                      "bind-mw",
                                                      "send-with-inv",
                                                      "tso",
                                                      "driver1",
                                                      nullptr,
                                                      nullptr,
                                                      "flush",
                                                      "atomic-write"};
  static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_ATOMIC_WRITE == kNames.size() - 1);
  return name_in(kNames, opcode);
}

}  // namespace mroce::verbs
