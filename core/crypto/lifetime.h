// How long OpenSSL works in a process.
#pragma once

namespace mroce::crypto {

// OpenSSL puts an exit handler into the process that takes it down. A library that still talks to peers in
// its destructor, after all exit handlers, must call this before anything else here is used; then there is no
// such handler. It has no effect in a program that has used OpenSSL itself before.
void outlive_exit_handlers();

}  // namespace mroce::crypto
