// From files to evidence: what a text is, is guessed from its content, line by line.
//
// A text may hold the output of several tools, one after the other or mixed with lines of launchers. The
// readers of parse/ are asked in turn whether they understand the line at hand; one that does consumes its
// lines and adds to the evidence. JSON is recognised where a line begins with "{" or "[". Whose readings they
// are (host, port, before or after the run) comes from the bundle, from the text (prompts, banners, command
// lines), or from the name of the file: "nodeA/ethtool-eth0-before.txt", "receiver_after.txt". The folder
// that all files share says nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/rulebook.h"
#include "doctor/text.h"

namespace mroce::doctor {

// Whose and when, at the line at hand.
struct Context {
  Context(Evidence& into, const Rulebook& rules) : evidence(into), book(rules) {}
  Evidence& evidence;
  const Rulebook& book;
  uint32_t source = 0;
  std::string host;
  Role role = Role::kUnknown;
  Phase phase = Phase::kUnknown;
  int64_t time_ns = 0;
  std::string device, netdev;
  uint32_t port_number = 1;
  std::string variant;
  std::string version;        // of the collective library, as its log says
  uint64_t understood = 0;    // lines
  bool keep_unknown = false;  // counters that the vendor map does not have, too

  Host& this_host();
  Port& this_port();  // of device and netdev
  Port& port(std::string_view device, uint32_t number, std::string_view netdev);
  void count(Port& port, std::string_view from, std::string_view name, uint64_t value, uint32_t line);
  void set(Port& port, std::string_view name, std::string_view text, uint32_t line);
  void set_host(std::string_view name, std::string_view text, uint32_t line);
  void event(std::string_view kind, std::string_view detail, uint32_t line);
  void problem(uint32_t line, std::string reason);
  Where where(uint32_t line) const { return {source, line}; }

 private:
  Host* host_ = nullptr;
  std::string host_name_;
};

// What the name of a file tells, beyond the part that all files have in common.
struct NameHints {
  std::string host, device, netdev, variant;
  Role role = Role::kUnknown;
  Phase phase = Phase::kUnknown;
};
NameHints hints_of(std::string_view path);

inline constexpr uint64_t kMaxFileBytes = 64u << 20;  // of one file; the rest is a named problem

struct InputText {
  std::string name;   // as named by the user
  std::string hints;  // the part of the name that tells files apart
  std::string text;
  bool cut = false;  // there was more than kMaxFileBytes
};

void ingest(InputText input, Context context);
// `text` within a bundle or within another text, with what is known already.
void ingest_text(std::string_view text, Context& context);

// Readings into deltas, names of vendors into canonical ones, two halves of a port into one. Once, after all
// texts.
void assemble(Evidence& evidence, const Rulebook& book, bool keep_unknown = false);

}  // namespace mroce::doctor
