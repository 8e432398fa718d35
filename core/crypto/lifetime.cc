#include "core/crypto/lifetime.h"

#include <openssl/crypto.h>

#include "core/base/assert.h"

namespace mroce::crypto {

void outlive_exit_handlers() {
  const int done = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  MROCE_ASSERT(done == 1);
}

}  // namespace mroce::crypto
