// The parts of `mroce doctor`, one file each, and what they share.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.h"
#include "cli/verbs.h"
#include "doctor/bundle.h"
#include "doctor/collect/redact.h"
#include "doctor/collect/snapshot.h"
#include "doctor/page.h"

namespace mroce::cli {

void add_doctor_snapshot(CLI::App& doctor, int& exit_code);
void add_doctor_run(CLI::App& doctor, const Rest& rest, int& exit_code);
void add_doctor_diff(CLI::App& doctor, int& exit_code);
void add_doctor_inventory(CLI::App& doctor, int& exit_code);
void add_doctor_merge(CLI::App& doctor, int& exit_code);
void add_doctor_suite(CLI::App& doctor, int& exit_code);

std::string styled_ink(doctor::Ink ink, std::string_view text);  // for standard output

// --redact and what belongs to it.
struct RedactFlags {
  bool on = false;
  std::string phrase;
  std::vector<std::string> also;
  doctor::Redactor redactor() const;
};
void add_redact_flags(CLI::App& app, RedactFlags& flags);

// --role, --limit: of snapshots.
void add_collect_flags(CLI::App& app, doctor::CollectOptions& options);
std::string own_program();  // the path of this binary

// Reads a file or, for "-", standard input, up to `bound` bytes.
tl::expected<std::string, std::string> read_whole(const std::string& file, size_t bound);

}  // namespace mroce::cli
