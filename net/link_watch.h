// LinkWatch: tells when a local interface loses or regains its link, from the kernel's rtnetlink messages
// (rtnetlink(7), group RTMGRP_LINK). Needs no privilege. If the kernel had to drop messages, the state of
// every known interface is read afresh, so that nothing is missed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "net/local_addresses.h"
#include "net/sockets.h"

namespace mroce::net {

struct LinkChange {
  uint32_t ifindex = 0;
  bool up = false;
};

class LinkWatch {
 public:
  // Open it before the addresses are listed: what changes in between is then still reported.
  static tl::expected<LinkWatch, std::string> open();
  // The interfaces to report about, with the state that the caller knows.
  void follow(const std::vector<LocalAddress>& addresses);

  int fd() const { return socket_.get(); }
  // What has changed since the last call; never blocks, and takes a bounded number of messages.
  std::vector<LinkChange> poll();
  void close() { socket_.reset(); }

 private:
  struct Link {
    std::string name;
    bool up = false;
  };

  void read_messages(const char* bytes, size_t length, std::vector<LinkChange>& changes);
  void note(uint32_t ifindex, bool up, std::vector<LinkChange>& changes);
  void read_all_states(std::vector<LinkChange>& changes);

  FileDescriptor socket_;
  std::map<uint32_t, Link> links_;  // by interface index
};

}  // namespace mroce::net
