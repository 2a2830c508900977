// How the conversations of a source become samples.
#pragma once

#include <functional>
#include <string>

#include "plugins/data/messages/conversation_file.hpp"
#include "plugins/data/messages/conversation_store.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::tasks::conversation {

// Hands the conversations of a source's records to the collector.
using ReadConversations = std::function<void(messages::Collector&, const messages::ReadHooks&)>;

struct SampleMaker {
  // Why a conversation cannot be used; empty: it can. [any-thread]
  std::function<std::string(const messages::Conversation&)> problem_of;
  // What is added of it; throws an Error with the reason where there is nothing. [any-thread]
  std::function<std::string(const messages::Conversation&)> sample_of;
};

// Adds what is made of the conversations of a part of a source. Nothing is said of those that are held out,
// which are not made where they are not asked for.
stores::TokenReport read_samples(const sources::SourceFiles& files, const files::SplitPart& part,
                                 const stores::TokenSink& add, const files::Hooks& hooks,
                                 const SampleMaker& maker, const ReadConversations& read);

// Conversations as they are, for a tokenizer that is trained on them. options: equal where `read` gives the
// same of the same files.
messages::Source plain_source(const sources::SourceFiles& files, const std::string& options,
                              const ReadConversations& read);

}  // namespace pipeline::tasks::conversation
