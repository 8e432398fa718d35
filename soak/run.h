// Run: one random run. Builds a world from RunOptions, lets applications post, poll, destroy and make anew
// under faults, then lets the faults end and checks that everything ends, too; that every endpoint works with
// every other (`meetings`); at last that an idle world is idle, and holds no more than idle worlds do.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "soak/options.h"
#include "soak/oracle.h"
#include "soak/plant.h"
#include "soak/range_allocator.h"
#include "soak/world/world.h"

namespace mroce::soak {

struct RunResult {
  std::vector<Violation> violations;
  uint64_t hash = 0;  // of all datagrams and completions
  uint64_t operations = 0;
  uint64_t completions = 0;
  uint64_t datagrams = 0;
  Nanos virtual_time{0};
  uint64_t final_draw = 0;  // of all generators: another run that gives the same has drawn the same
  FaultTally faults;
  uint64_t most_memory = 0;       // of a connection
  uint64_t most_idle_memory = 0;  // when everything had ended
};

// Told what happens, a line for each event; see story.h.
class Story;

class Run {
 public:
  explicit Run(const RunOptions& options, Plant* plant = nullptr, Story* story = nullptr);
  RunResult go();

 private:
  struct Cq {
    Endpoint* endpoint = nullptr;
    CqHandle handle;
    uint64_t user = 0;
    bool armed = false;
    bool solicited = false;       // armed for solicited and failed completions only
    uint64_t seen = UINT64_MAX;   // activity of its endpoint when it was found empty
    uint64_t asked = UINT64_MAX;  // … when its notification was looked for
  };
  struct Host {  // one endpoint and what its application has
    Endpoint* endpoint = nullptr;
    Mr arena;
    RangeAllocator free;
    Mr words;
    Mr no_rights;
    std::unique_ptr<ReceivePool> shared;
    std::map<uint32_t, Side*> by_qpn;
    CqHandle shared_cq;
    Time crashed{};
  };

  // script.cc: what is to be done
  void write_script(Flow& flow, bool flawed);
  Op random_op(Flow& flow);
  void shape(Flow& flow, Op& op);
  void make_flawed(Flow& flow, Op& op);
  void place_target(Flow& flow, Op& op);
  uint32_t random_length(uint32_t most);
  bool awaits_nothing(const Flow& flow) const;
  bool prepare(Flow& flow, Op& op);    // gives it buffers; false: none free
  void take_back(Flow& flow, Op& op);  // what it was given: it was not posted
  std::vector<Sge> split(uint64_t addr, uint32_t bytes, uint32_t lkey, uint32_t most);

  // setup.cc
  void add_host();
  void set_up(Host& host);
  Link& add_link(Host& a, Host& b);
  void begin_link(Link& link, Host& a, Host& b);
  void make_side(Side& side, Link& link, Host& host);
  std::unique_ptr<ReceivePool> make_pool(Host& host, SrqHandle srq);
  EndpointOptions endpoint_options(uint32_t index);
  void vary_ways();
  void schedule_faults();
  CqHandle make_cq(Host& host);

  // run.cc
  void act();
  void post_some(Side& side);
  bool wants_to_post(const Side& side) const;
  void post_receives(ReceivePool& pool, Side* side, uint32_t most);
  void poll(bool everything);
  void poll_by_event(Cq& cq);
  void look_everywhere();
  void take(Cq& cq);
  bool finished(const Link& link) const;
  bool all_finished() const;
  bool all_posted() const;

  // vary.cc: what must have no effect
  void vary(Side& side);
  void drain(Side& side);
  void resume_drained();
  void reregister(Flow& flow);
  void resize(Cq& cq);
  void overcommit_credits();

  // incidents.cc: faults of the soak
  void schedule_incidents();
  void spell(FaultKind kind, bool both_ways, bool one_path);
  void storm();
  void lose_link(bool tell);
  void jump_clock();
  void read_slowly();
  std::pair<Time, Time> some_while();

  // disturb.cc
  void disturb(Link& link);
  void retire_later(Link& link, Nanos most);
  void retire(Link& link);
  void take_over(Side& from, Side& to);
  void crash(Host& host);
  void give_up_broken(Link& link);
  bool may_be_silent(const Host& a, const Host& b) const;
  Nanos some_time(Nanos most);
  bool counted(FaultKind kind);  // true, so that it can be part of a condition

  // finish.cc
  void final_round();
  void serve_all(Nanos limit);
  void meet();
  void check_bounds();
  void check_balance(const std::string& name, const ConnectionStats& connection);
  void check_leaks();
  void check_idle();
  void check_counters();
  void say_goodbye();
  Host& host_of(const Side& side) { return *hosts_[side.endpoint->index()]; }

  RunOptions o_;
  Rng rng_;
  World world_;
  Oracle oracle_;
  Plant* plant_;
  Story* story_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Link>> links_;  // dead ones included
  std::vector<std::unique_ptr<Cq>> cqs_;
  std::vector<std::unique_ptr<ReceivePool>> graveyard_;  // of endpoints that crashed
  uint64_t next_id_ = 1;
  uint64_t last_cq_user_ = 0;
  uint64_t bytes_left_ = 0;
  uint64_t completion_hash_ = 0xcbf29ce484222325ULL;
  RunResult result_;
  uint64_t bounds_asked_ = 0;
  bool calm_ = false;
  Time quiet_at_{};     // the last fault has ended
  bool looks_ = false;  // who is told of solicited completions only looks for the others, too
  bool final_ = false;
  bool meeting_ = false;  // the last queue pairs, which must not fail
  bool disturbed_any_ = false;
  uint64_t last_qp_user_ = 0;
  uint32_t pending_ = 0;  // things that the application will do later
  uint32_t remakes_left_ = 0;
};

}  // namespace mroce::soak
