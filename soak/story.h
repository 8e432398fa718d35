// Story: a run told line by line, for people.
//
//     12.345678 ms  +  WRITE posted …
//
// time, one character for the kind of event, what happened. legend() explains the characters.
#pragma once

#include <string>
#include <string_view>

#include "soak/world/world.h"

namespace mroce::soak {

class Story {
 public:
  using Sink = void (*)(const std::string& line);
  // With `packets` there is a line for each datagram, too.
  Story(Sink sink, bool packets) : sink_(sink), packets_(packets) {}

  static std::string_view legend();
  void begin(World& world);  // its time is told from now on
  void line(char mark, std::string_view text);
  void completion(const Endpoint& endpoint, const Wc& wc);

 private:
  Sink sink_;
  bool packets_;
  const World* world_ = nullptr;
};

}  // namespace mroce::soak
