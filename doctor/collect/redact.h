// A bundle without what identifies its site: host and user names, addresses, GIDs and GUIDs, MAC addresses,
// UUIDs, serial numbers. What replaces them is in pseudonyms.h; the form stays, so that the bundle can be
// analysed as before.
//
// Names of hosts are known from the bundle, from node descriptions, from the output of collectives, from the
// arguments of launchers and of perftest, and from `also`. Versions that look like IPv4 addresses
// ("229.0.154.0") are left alone on lines that speak of a version or of firmware.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/bundle.h"
#include "doctor/collect/pseudonyms.h"

namespace mroce::doctor {

class Redactor {
 public:
  explicit Redactor(Pseudonyms pseudonyms) : pseudonyms_(std::move(pseudonyms)) {}
  void also(std::string_view word, std::string_view kind = "host");
  void learn(const Bundle& bundle);  // names of hosts and users in it; before any bundle is redacted
  void redact(Bundle& bundle);
  std::string text(std::string_view original);

 private:
  void learn_text(std::string_view text);
  void learn_arguments(const std::vector<std::string>& arguments);
  void learn_host(std::string_view name);
  std::string line(std::string_view original);
  size_t address_at(std::string_view line, size_t at, bool versions, std::string& out);
  size_t word_at(std::string_view line, size_t at, std::string& out);

  Pseudonyms pseudonyms_;
  std::map<std::string, std::string, std::less<>> words_;  // → kind
  std::vector<std::string> domains_;
};

}  // namespace mroce::doctor
