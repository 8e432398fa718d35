#include "doctor/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "doctor/facts.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxProofs = 16;
constexpr size_t kMaxMissing = 12;

std::string number_text(double value) {
  if (std::fabs(value) >= 1e15) return fmt::format("{:.3g}", value);
  if (value == std::floor(value)) return fmt::format("{:.0f}", value);
  return std::fabs(value) >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.3g}", value);
}

std::string shown(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  return "";
}

class Judge {
 public:
  Judge(const Evidence& evidence, const Rulebook& book)
      : evidence_(evidence), book_(book), world_(evidence, book) {}

  Diagnosis run() {
    for (const Rule& rule : book_.rules) try_rule(rule);
    rank();
    decide();
    count();
    return std::move(out_);
  }

 private:
  void try_rule(const Rule& rule) {
    const Evaluation evaluation = evaluate(rule.when, world_, world_.run());
    const auto fired = truth(evaluation.value);
    if (!fired) undecided_.push_back(&rule);
    if (fired != true) return;
    if (rule.id == kHealthyRule) {
      proven_healthy_ = finding_of(rule, evaluation);
      return;
    }
    out_.findings.push_back(finding_of(rule, evaluation));
  }

  Finding finding_of(const Rule& rule, const Evaluation& evaluation) {
    Finding out;
    out.rule = rule.id;
    out.layer = rule.layer;
    out.severity = rule.severity;
    out.confidence = rule.confidence;
    const Entity& at = evaluation.witnesses.empty() ? world_.run() : *evaluation.witnesses.back();
    for (const Noted& note : evaluation.notes) add_proof(out, note);
    for (const Expression& cite : rule.cite)
      for (const Noted& note : evaluate(cite, world_, at).notes) add_proof(out, note);
    for (const LowerConfidence& lower : rule.lower) {
      if (truth(evaluate(lower.when, world_, at).value) != true) continue;
      if (lower.to < out.confidence) out.confidence = lower.to;
      out.lowered_because.push_back(lower.because);
    }
    for (const Contradiction& each : book_.contradictions) {
      if (each.stage != rule.stage || truth(evaluate(each.when, world_, world_.run()).value) != true)
        continue;
      out.confidence = Confidence::kLow;
      out.lowered_because.push_back(each.because);
    }
    out.sentence = fill(rule.sentence, evaluation);
    out.next_check = fill(rule.next_check, evaluation);
    out.fix = fill(rule.fix, evaluation);
    out.source = rule.source;
    return out;
  }

  void add_proof(Finding& finding, const Noted& note) {
    if (finding.evidence.size() >= kMaxProofs) return;
    Proof proof;
    const SourceName& source = evidence_.sources[note.where.source];
    proof.file = source.file;
    proof.source = source.inner;
    proof.line = note.where.line;
    proof.counter = note.name;
    proof.threshold = note.threshold;
    if (const auto* number = std::get_if<double>(&note.value))
      proof.delta = *number;
    else
      proof.text = shown(note.value);
    const auto words_at = [&](const char* name) {
      const Fact* fact = note.entity->find(name);
      return fact == nullptr ? std::string() : shown(fact->value);
    };
    proof.host = words_at("host");
    proof.port = words_at("port");
    // Metrics have no place of their own: that of the first reading behind them. A fact of the whole run
    // needs none.
    const bool same = std::any_of(finding.evidence.begin(), finding.evidence.end(), [&](const Proof& p) {
      return p.counter == proof.counter && p.host == proof.host && p.port == proof.port &&
             p.line == proof.line && p.file == proof.file;
    });
    if (!same) finding.evidence.push_back(std::move(proof));
  }

  // "{host} {port}": facts where the condition became true, innermost first; then metrics; then of the whole
  // run.
  std::string fill(const std::string& text, const Evaluation& evaluation) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t open = text.find('{', at);
      const size_t close = open == std::string::npos ? open : text.find('}', open);
      if (close == std::string::npos) return out + text.substr(at);
      out += text.substr(at, open - at);
      out += lookup(text.substr(open + 1, close - open - 1), evaluation);
      at = close + 1;
    }
    return out;
  }

  std::string lookup(const std::string& name, const Evaluation& evaluation) const {
    const auto parsed = Expression::parse(name);
    if (!parsed) return "?";
    for (auto at = evaluation.witnesses.rbegin(); at != evaluation.witnesses.rend(); ++at) {
      const std::string text = shown(evaluate(*parsed, world_, **at).value);
      if (!text.empty()) return text;
    }
    const std::string text = shown(evaluate(*parsed, world_, world_.run()).value);
    if (!text.empty()) return text;
    return name == "host" ? "the host" : name == "port" ? "the port" : "?";
  }

  void rank() {
    auto& findings = out_.findings;
    for (const Finding& cause : findings) {
      if (cause.severity != Severity::kFault || cause.confidence == Confidence::kLow) continue;
      for (const std::string& symptom : book_.rule(cause.rule)->outranks)
        for (Finding& other : findings)
          if (other.rule == symptom && other.outranked_by.empty()) other.outranked_by = cause.rule;
    }
    const auto key = [&](const Finding& f) {
      return std::make_tuple(static_cast<int>(f.severity), !f.outranked_by.empty(),
                             -static_cast<int>(f.confidence), book_.rule(f.rule)->number);
    };
    std::stable_sort(findings.begin(), findings.end(),
                     [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
  }

  void verdict(Outcome outcome, const Finding& finding) {
    out_.outcome = outcome;
    out_.rule = finding.rule;
    out_.layer = finding.layer;
    out_.confidence = finding.confidence;
    out_.sentence = finding.sentence;
  }

  void decide() {
    auto& findings = out_.findings;
    if (!findings.empty() && findings.front().severity == Severity::kInvalid) {
      std::erase_if(findings, [](const Finding& f) { return f.severity != Severity::kInvalid; });
      return verdict(Outcome::kInvalid, findings.front());
    }
    const bool fault = !findings.empty() && findings.front().severity == Severity::kFault;
    if (fault && (findings.front().confidence != Confidence::kLow || !proven_healthy_))
      return verdict(Outcome::kFinding, findings.front());
    if (proven_healthy_) {
      verdict(Outcome::kHealthy, *proven_healthy_);
      findings.push_back(std::move(*proven_healthy_));
      std::rotate(findings.begin(), findings.end() - 1, findings.end());
      return;
    }
    if (!findings.empty() && findings.front().severity == Severity::kWarning)
      return verdict(Outcome::kFinding, findings.front());
    const auto normal = std::find_if(findings.begin(), findings.end(), [](const Finding& f) {
      return f.severity == Severity::kNormal && f.confidence == Confidence::kHigh;
    });
    if (normal != findings.end()) {
      verdict(Outcome::kHealthy, *normal);
      out_.rule = kHealthyRule;
      out_.layer = Layer::kNone;
      return;
    }
    insufficient();
  }

  void insufficient() {
    out_.outcome = Outcome::kInsufficient;
    out_.rule = kInsufficientRule;
    out_.layer = Layer::kNone;
    out_.confidence = Confidence::kLow;
    // What most rules wait for comes first.
    std::map<std::string, size_t> waiting;
    std::vector<std::string> needs;
    for (const Rule* rule : undecided_)
      for (const std::string& need : rule->needs)
        if (++waiting[need] == 1) needs.push_back(need);
    std::stable_sort(needs.begin(), needs.end(),
                     [&](const std::string& x, const std::string& y) { return waiting[x] > waiting[y]; });
    for (size_t i = 0; i < needs.size() && i < kMaxMissing; ++i)
      out_.missing.push_back(book_.needs.at(needs[i]));
    out_.sentence =
        out_.missing.empty()
            ? "What was read shows no fault, and nothing proves that the job runs as fast as it could."
            : "What was read does not suffice for a verdict.";
  }

  void count() {
    out_.hosts = evidence_.hosts.size();
    for (const Host& host : evidence_.hosts) {
      out_.ports += host.ports.size();
      for (const Port& port : host.ports) out_.counters += port.counters.size();
    }
    out_.results = evidence_.perftest.size() + evidence_.collectives.size();
    for (const Problem& problem : evidence_.problems) {
      const SourceName& source = evidence_.sources[problem.where.source];
      out_.problems.push_back({source.file, source.inner, problem.where.line, problem.reason});
    }
  }

  const Evidence& evidence_;
  const Rulebook& book_;
  World world_;
  Diagnosis out_;
  std::vector<const Rule*> undecided_;
  std::optional<Finding> proven_healthy_;
};

}  // namespace

Diagnosis judge(const Evidence& evidence, const Rulebook& book) {
  return Judge(evidence, book).run();
}

}  // namespace mroce::doctor
