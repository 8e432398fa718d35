// Measurements of one quantity each, by two processes over loopback: mroce and, for scale, kernel TCP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "net/settings.h"

namespace mroce::cli {

struct Flow {
  double gbps = 0;
  double cpu_s_per_gb = 0;  // processor time of both ends for 10^9 payload bytes
};

// WRITEs of `bytes` each, as many in flight as fill 4 MiB (at least 4, at most 512). The target process
// sleeps, as the target of ib_write_bw does.
Outcome<Flow> measure_writes(const net::Settings& settings, uint32_t bytes, double seconds);
// A byte stream in calls of 256 KiB, congestion control cubic.
Outcome<Flow> measure_tcp_stream(double seconds);

// Half a round trip of 8 bytes in microseconds, both ends spinning: a WRITE answered by a WRITE (each looks
// at its memory and polls its completion queue in turn), and bytes over a TCP connection with TCP_NODELAY.
Outcome<double> measure_write_half_trip_us(const net::Settings& settings, double seconds);
Outcome<double> measure_tcp_half_trip_us(double seconds);

struct IdleMemory {
  double heap_bytes = 0;       // growth of the heap for one more connection
  double accounted_bytes = 0;  // what the connection says that it holds
  uint32_t connections = 0;
};
// After one WRITE over each of `connections` connections of one process.
Outcome<IdleMemory> measure_idle_connections(const net::Settings& settings, uint32_t connections);

// A flow of 64 KiB WRITEs, sampled.
struct Sample {
  double at_s = 0;  // end of the interval, from the opening of the endpoint
  double gbps = 0;
  std::vector<uint64_t> path_sent;  // data packets so far
  std::vector<std::string> path_state;
};
Outcome<std::vector<Sample>> sample_writes(const net::Settings& settings, double seconds, double interval_s);

double median(std::vector<double> values);

}  // namespace mroce::cli
