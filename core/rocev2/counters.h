// Counters of a RoCEv2 engine, each declared once with a sentence.
#pragma once

#include <cstdint>

namespace mroce::rocev2 {

// X(name, sentence)
#define MROCE_ROCEV2_COUNTERS(X)                                                      \
  X(tx_packets, "packets sent")                                                       \
  X(tx_data, "packets with payload sent, each transmission counted")                  \
  X(tx_payload_bytes, "payload bytes sent, each transmission counted")                \
  X(retransmitted, "request packets or READ responses sent again")                    \
  X(acks_sent, "ACKs sent")                                                           \
  X(naks_sent, "NAKs for a gap sent, IRN's included")                                 \
  X(rnr_naks_sent, "RNR NAKs sent")                                                   \
  X(error_naks_sent, "NAKs for an invalid or refused request sent")                   \
  X(cnps_sent, "congestion notification packets sent")                                \
  X(rx_packets, "packets received")                                                   \
  X(rx_payload_bytes, "payload bytes placed, each once")                              \
  X(acks_received, "ACKs received")                                                   \
  X(naks_received, "NAKs for a gap received, IRN's included")                         \
  X(rnr_naks_received, "RNR NAKs received")                                           \
  X(error_naks_received, "NAKs for an invalid or refused request received")           \
  X(cnps_received, "congestion notification packets received")                        \
  X(ce_received, "packets received with the CE mark")                                 \
  X(out_of_order, "requests received before an earlier one")                          \
  X(duplicates, "requests received that were executed or held already")               \
  X(implied_naks, "responses that showed an earlier one to be missing")               \
  X(timeouts, "retransmission timeouts")                                              \
  X(drop_malformed, "dropped: does not decode")                                       \
  X(drop_qp, "dropped: no such queue pair, or it belongs to another peer")            \
  X(drop_state, "dropped: the queue pair is not ready to receive")                    \
  X(drop_psn, "dropped: outside of what may be outstanding")                          \
  X(drop_response, "dropped: a response that nothing asked for or that does not fit") \
  X(drop_hold, "dropped: no room to hold a packet out of order")

struct Counters {
#define MROCE_ROCEV2_COUNTER(name, sentence) uint64_t name = 0;
  MROCE_ROCEV2_COUNTERS(MROCE_ROCEV2_COUNTER)
#undef MROCE_ROCEV2_COUNTER
};

}  // namespace mroce::rocev2
