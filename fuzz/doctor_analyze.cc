// Whatever a host, a switch or a program printed: from text to the page of the diagnosis. A form feed in the
// input begins a second file, "after" the run.
#include <nlohmann/json.hpp>

#include "doctor/finding.h"
#include "doctor/ingest.h"
#include "doctor/judge.h"
#include "doctor/page.h"
#include "doctor/rulebook.h"
#include "fuzz/input.h"

using namespace mroce;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const doctor::Rulebook& book = doctor::builtin_rulebook();
  const std::string_view text = fuzz::text_of(data, size);
  const size_t feed = text.find('\f');
  doctor::Evidence evidence;
  const auto read = [&](const char* name, std::string_view part) {
    doctor::ingest({name, name, std::string(part), false}, doctor::Context(evidence, book));
  };
  read("a-before.txt", text.substr(0, feed));
  if (feed != std::string_view::npos) read("a-after.txt", text.substr(feed + 1));
  doctor::assemble(evidence, book);
  const doctor::Diagnosis diagnosis = doctor::judge(evidence, book);
  fuzz::require(!diagnosis.rule.empty() && !diagnosis.sentence.empty(), "a diagnosis without a verdict");
  const int code = doctor::exit_code_of(diagnosis.outcome);
  fuzz::require(code == 0 || code == 1 || code == 5 || code == 6, "an exit code that scripts do not know");
  fuzz::require(nlohmann::json::accept(doctor::to_json(diagnosis)), "JSON that nobody can read");
  const std::string page =
      doctor::page_of(diagnosis, [](doctor::Ink, std::string_view word) { return std::string(word); });
  for (const char c : page) {
    fuzz::require(c == '\n' || static_cast<unsigned char>(c) >= ' ', "a control character on the terminal",
                  page);
  }
  return 0;
}
