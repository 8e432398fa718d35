// Counters, each declared once with a sentence; the tables in the docs, `--stats`, and `--json` come from
// here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mroce {

// Engine-wide: X(name, sentence)
#define MROCE_ENGINE_COUNTERS(X)                                            \
  X(rx_datagrams, "datagrams received")                                     \
  X(rx_bytes, "bytes received in UDP payloads")                             \
  X(tx_datagrams, "datagrams sent")                                         \
  X(tx_bytes, "bytes sent in UDP payloads")                                 \
  X(tx_bursts, "bursts handed to the network")                              \
  X(drop_truncated, "dropped: shorter than its type needs")                 \
  X(drop_version, "dropped: unknown version")                               \
  X(drop_type, "dropped: unknown or unexpected type")                       \
  X(drop_magic, "dropped: INIT without our magic")                          \
  X(drop_crc, "dropped: the integrity check failed")                        \
  X(drop_tag, "dropped: no key of the connection opens it")                 \
  X(drop_replay, "dropped: came before, and is no data")                    \
  X(drop_security, "dropped: no security mode that both sides allow")       \
  X(drop_key_id, "dropped: the peer has another pre-shared key")            \
  X(drop_connection, "dropped: unknown connection id")                      \
  X(drop_path, "dropped: path number out of range")                         \
  X(drop_pseq, "dropped: path sequence number outside the window")          \
  X(drop_cpsn, "dropped: connection sequence number outside the window")    \
  X(drop_malformed, "dropped: a field has no legal value")                  \
  X(drop_forged_ack, "dropped: acknowledges what was never sent")           \
  X(drop_held_full, "dropped: no room to hold a tail")                      \
  X(drop_reset, "dropped: RESET without the right token")                   \
  X(drop_limit, "dropped: connection limit reached")                        \
  X(duplicates, "packets received more than once, placed once")             \
  X(naks_sent, "negative acknowledgements sent")                            \
  X(naks_received, "negative acknowledgements received")                    \
  X(socket_overflows, "datagrams lost because the receive buffer was full") \
  X(retries_sent, "INITs that were answered with a cookie")                 \
  X(key_updates, "changes of a key that we send with")                      \
  X(connections_opened, "connections opened")                               \
  X(connections_failed, "connections that ended by silence or error")

// Per path, sending direction: X(name, sentence). At any time sent = acked + lost + those in flight.
#define MROCE_PATH_COUNTERS(X)                             \
  X(sent, "data packets sent, retransmissions included")   \
  X(acked, "data packets acknowledged in time")            \
  X(lost, "data packets declared lost")                    \
  X(retransmitted, "data packets sent again on this path") \
  X(spurious, "declared lost, acknowledged later")         \
  X(bytes, "bytes of data packets sent")                   \
  X(ce_marked, "packets that the receiver saw marked CE")  \
  X(rx_reported, "packets that the receiver counted")      \
  X(probes, "probes sent")                                 \
  X(failures, "times the path went to FAILED")             \
  X(recoveries, "times it came back")                      \
  X(entropy_changes, "times its source port changed")

// Per connection: X(name, sentence)
#define MROCE_CONNECTION_COUNTERS(X)                                              \
  X(data_packets_sent, "data packets sent, retransmissions included")             \
  X(data_packets_received, "data packets received, duplicates included")          \
  X(payload_bytes_sent, "payload bytes of messages, each counted once")           \
  X(payload_bytes_received, "payload bytes placed, each counted once")            \
  X(retransmissions, "data packets sent again")                                   \
  X(lost, "data packets declared lost")                                           \
  X(spurious, "declared lost, acknowledged later")                                \
  X(duplicates, "data packets received more than once")                           \
  X(acks_sent, "ACK packets sent")                                                \
  X(acks_received, "ACK packets received")                                        \
  X(penalized_acks, "of those, with a host penalty: the peer's host is too slow") \
  X(ptos, "probe time-outs")                                                      \
  X(rnr, "times a sender waited for a receive to be posted")                      \
  X(voids, "packets replaced by VOID")

#define MROCE_COUNTER_FIELD(name, sentence) uint64_t name = 0;
struct EngineCounters {
  MROCE_ENGINE_COUNTERS(MROCE_COUNTER_FIELD)
};
struct PathCounters {
  MROCE_PATH_COUNTERS(MROCE_COUNTER_FIELD)
};
struct ConnectionCounters {
  MROCE_CONNECTION_COUNTERS(MROCE_COUNTER_FIELD)
};
#undef MROCE_COUNTER_FIELD

}  // namespace mroce
