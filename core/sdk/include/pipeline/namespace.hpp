// The SDK is compiled into each plugin: in a namespace whose symbols stay inside, so that plugins built with
// other versions of it can be loaded beside each other.
#pragma once

#define PIPELINE_SDK_BEGIN \
  namespace pipeline {     \
  inline namespace [[gnu::visibility("hidden")]] sdk_v1 {
#define PIPELINE_SDK_END \
  }                      \
  }
