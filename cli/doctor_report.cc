#include "cli/doctor_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "doctor/export/textfile.h"
#include "doctor/report/html.h"

namespace mroce::cli {
namespace {

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[64];
  if (::gmtime_r(&now, &parts) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

}  // namespace

Outcome<void> write_doctor_report(const std::string& file, const doctor::Evidence& evidence,
                                  const doctor::Diagnosis& diagnosis) {
  const doctor::Timeline timeline =
      doctor::timeline_of(evidence, doctor::builtin_rulebook(), doctor::gpus_of(evidence), diagnosis);
  const std::string page = doctor::html_of(diagnosis, timeline, {MROCE_VERSION, now_text()});
  if (file == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return {};
  }
  const auto written = doctor::replace_file(file, page);
  if (!written)
    return failure(kEnvironment, written.error(), "name a file that may be written with --report");
  return {};
}

}  // namespace mroce::cli
