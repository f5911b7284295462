// Frames that no correct gateway sends: each is answered in band where a step is known, or ends the stream
// with InvalidArgument; nothing crashes and no other sequence is touched.
#include <gtest/gtest.h>

#include <functional>

#include "engine/base/philox.h"
#include "tests/rpc/raw_stream.h"
#include "tests/rpc/worker_fixture.h"

namespace spillway::test {
namespace {

class Malformed : public ::testing::Test {
 protected:
  Malformed() {
    rpc::StageClient client("worker", worker_.address());
    EXPECT_TRUE(client.LoadStage(LoadRequest(1), kLong).ok());
  }
  // A stream with sequence 1 open and two tokens in it.
  std::unique_ptr<RawStream> Opened() {
    auto stream = std::make_unique<RawStream>(worker_.address());
    EXPECT_TRUE(stream->Hello(1));
    v1::ClientFrame open;
    *open.mutable_open() = OpenOf(1);
    stream->Write(open);
    EXPECT_EQ(stream->Ask(ForwardOf(1, 1, 0, 2, 0, 8)).segments(0).held_tokens(), 2u);
    return stream;
  }
  // The sequence goes on as if nothing had been said.
  void ExpectUnharmed(RawStream& stream) {
    const std::vector<int32_t> prefix = {1, 2};
    const v1::ForwardReply reply = stream.Ask(ForwardOf(1000, 1, 2, 1, PrefixHash(prefix), 8));
    EXPECT_EQ(reply.step(), 1000u);
    EXPECT_EQ(reply.error_code(), 0u) << reply.error();
    ASSERT_EQ(reply.segments_size(), 1);
    EXPECT_EQ(reply.segments(0).code(), v1::SEGMENT_CODE_OK) << reply.segments(0).error();
  }
  void ExpectEnds(const v1::ClientFrame& frame, const std::string& naming, bool hello) {
    RawStream stream(worker_.address());
    if (hello) {
      ASSERT_TRUE(stream.Hello(1));
    }
    stream.Write(frame);
    const grpc::Status status = stream.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find(naming), std::string::npos) << status.error_message();
  }
  Worker worker_;
};

TEST_F(Malformed, FramesBeforeHelloEndTheStream) {
  v1::ClientFrame frame;
  *frame.mutable_forward() = ForwardOf(1, 1, 0, 1, 0, 8);
  ExpectEnds(frame, "Hello", false);
  *frame.mutable_open() = OpenOf(1);
  ExpectEnds(frame, "Hello", false);
  frame.Clear();
  ExpectEnds(frame, "Hello", false);
}

TEST_F(Malformed, EmptyFramesAndASecondHelloEndTheStream) {
  v1::ClientFrame frame;
  ExpectEnds(frame, "empty frame", true);
  frame.mutable_hello()->set_epoch(1);
  ExpectEnds(frame, "second Hello", true);
}

TEST_F(Malformed, EpochZeroIsRefused) {
  v1::ClientFrame frame;
  frame.mutable_hello();
  ExpectEnds(frame, "epoch 0", false);
}

struct Case {
  const char* name;
  const char* naming;  // in the error
  std::function<void(v1::Forward*)> spoil;
};

TEST_F(Malformed, MicroBatchesAreAnsweredInBand) {
  const std::vector<Case> cases = {
      {"no segments", "no segments", [](v1::Forward* f) { f->clear_segments(); }},
      {"no tokens", "no tokens", [](v1::Forward* f) { f->mutable_segments(0)->clear_tokens(); }},
      {"no activations", "activation bytes", [](v1::Forward* f) { f->clear_activations(); }},
      {"a byte short", "activation bytes", [](v1::Forward* f) { f->mutable_activations()->pop_back(); }},
      {"a byte more", "activation bytes", [](v1::Forward* f) { f->mutable_activations()->push_back(0); }},
      {"fewer tokens than rows", "activation bytes",
       [](v1::Forward* f) { f->mutable_segments(0)->mutable_tokens()->RemoveLast(); }},
      {"unspecified type", "activation type", [](v1::Forward* f) { f->clear_activation_type(); }},
      {"unknown type", "activation type",
       [](v1::Forward* f) { f->set_activation_type(static_cast<v1::ActivationType>(77)); }},
      {"unknown outputs", "outputs",
       [](v1::Forward* f) { f->mutable_segments(0)->set_outputs(static_cast<v1::OutputRows>(9)); }},
      {"too many rows", "rows",
       [](v1::Forward* f) {
         for (int i = 0; i < 100; ++i) f->mutable_segments(0)->add_tokens(1);
       }},
      {"too many segments", "rows",
       [](v1::Forward* f) {
         const v1::Segment segment = f->segments(0);
         for (int i = 0; i < 100; ++i) *f->add_segments() = segment;
       }},
      {"position beyond 32 bits", "32 bits",
       [](v1::Forward* f) { f->mutable_segments(0)->set_begin(UINT32_MAX); }},
      {"a later fragment first", "came first", [](v1::Forward* f) { f->set_fragment(3); }},
  };
  const auto stream = Opened();
  uint64_t step = 10;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    v1::Forward forward = ForwardOf(++step, 1, 0, 2, 0, 8);
    c.spoil(&forward);
    const v1::ForwardReply reply = stream->Ask(forward);
    EXPECT_EQ(reply.step(), step);
    EXPECT_EQ(reply.error_code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
    EXPECT_NE(reply.error().find(c.naming), std::string::npos) << reply.error();
    EXPECT_TRUE(reply.last());
    EXPECT_EQ(reply.segments_size(), 0);
  }
  ExpectUnharmed(*stream);
}

// The parts of a well-formed micro-batch of two rows, cut after `cut` bytes.
std::vector<v1::ClientFrame> Cut(uint64_t step, size_t cut) {
  const v1::Forward whole = ForwardOf(step, 1, 0, 2, 0, 8);
  std::vector<v1::ClientFrame> frames(2);
  v1::Forward* first = frames[0].mutable_forward();
  *first = whole;
  first->set_last(false);
  first->set_activations(whole.activations().substr(0, cut));
  v1::Forward* second = frames[1].mutable_forward();
  second->set_step(step);
  second->set_activation_type(whole.activation_type());
  second->set_activations(whole.activations().substr(cut));
  second->set_fragment(1);
  second->set_last(true);
  return frames;
}

TEST_F(Malformed, FragmentsOutOfOrderAreAnsweredOnce) {
  const auto stream = Opened();
  std::vector<v1::ClientFrame> frames = Cut(20, 20);
  for (const v1::ClientFrame& frame : frames) stream->Write(frame);
  EXPECT_EQ(stream->NextReply().error_code(), 0u);  // the cut itself is fine

  frames = Cut(21, 20);
  frames[1].mutable_forward()->set_fragment(2);
  for (const v1::ClientFrame& frame : frames) stream->Write(frame);
  v1::ForwardReply reply = stream->NextReply();
  EXPECT_EQ(reply.step(), 21u);
  EXPECT_NE(reply.error().find("after fragment 0"), std::string::npos) << reply.error();

  frames = Cut(22, 20);  // the first fragment again and again: the earlier attempt is cut off
  stream->Write(frames[0]);
  stream->Write(frames[0]);
  stream->Write(frames[1]);
  reply = stream->NextReply();
  EXPECT_EQ(reply.step(), 22u);
  EXPECT_NE(reply.error().find("cut off"), std::string::npos) << reply.error();
  EXPECT_EQ(stream->NextReply().error_code(), 0u);

  frames = Cut(23, 20);  // more bytes than the first fragment's rows need; the rest is swallowed
  frames[1].mutable_forward()->set_activations(std::string(100, 'x'));
  frames[1].mutable_forward()->set_last(false);
  for (const v1::ClientFrame& frame : frames) stream->Write(frame);
  frames[1].mutable_forward()->set_fragment(2);
  stream->Write(frames[1]);
  frames[1].mutable_forward()->set_last(true);
  frames[1].mutable_forward()->set_fragment(3);
  stream->Write(frames[1]);
  reply = stream->NextReply();
  EXPECT_EQ(reply.step(), 23u);
  EXPECT_NE(reply.error().find("up to fragment 1"), std::string::npos) << reply.error();
  v1::Forward again = ForwardOf(24, 1, 0, 2, 0, 8);
  EXPECT_EQ(stream->Ask(again).step(), 24u);

  frames = Cut(25, 20);  // a later fragment may not bring segments or another type
  *frames[1].mutable_forward()->add_segments() = again.segments(0);
  for (const v1::ClientFrame& frame : frames) stream->Write(frame);
  EXPECT_NE(stream->NextReply().error().find("changes the segments"), std::string::npos);
  again.set_step(26);
  EXPECT_EQ(stream->Ask(again).error_code(), 0u);
}

TEST_F(Malformed, ASegmentPastTheContextIsAnsweredPerSegment) {
  const auto stream = Opened();
  const v1::Forward forward = ForwardOf(30, 1, 600, 2, 7, 8);
  const v1::ForwardReply reply = stream->Ask(forward);
  EXPECT_EQ(reply.error_code(), 0u);
  ASSERT_EQ(reply.segments_size(), 1);
  EXPECT_NE(reply.segments(0).code(), v1::SEGMENT_CODE_OK);
}

TEST_F(Malformed, ListsOfSamplingParametersAreBounded) {
  RawStream stream(worker_.address());
  ASSERT_TRUE(stream.Hello(1));
  v1::ClientFrame frame;
  *frame.mutable_open() = OpenOf(9);
  for (int i = 0; i < 2000; ++i) frame.mutable_open()->mutable_sampling()->add_stop_ids(i);
  stream.Write(frame);
  v1::WorkerFrame answer;
  ASSERT_TRUE(stream.Read(&answer));
  EXPECT_EQ(answer.sequence_error().sequence(), 9u);
  EXPECT_NE(answer.sequence_error().error().find("stop ids"), std::string::npos);
}

// Frames made of a seed: random bytes that parse, and well-formed messages with random fields.
v1::ClientFrame RandomFrame(uint64_t seed) {
  uint64_t position = 0;
  const auto draw = [&](uint32_t below) {
    return static_cast<uint32_t>(UniformDraw(seed, 0, position++) * below);
  };
  v1::ClientFrame frame;
  if (draw(4) == 0) {
    std::string bytes;
    for (uint32_t i = draw(60); i > 0; --i) bytes.push_back(static_cast<char>(draw(256)));
    if (frame.ParseFromString(bytes)) return frame;
    frame.Clear();
  }
  const uint32_t extremes[] = {0, 1, 2, 7, 31, 64, 65, 511, 512, UINT32_MAX};
  const auto extreme = [&] { return extremes[draw(10)]; };
  switch (draw(6)) {
    case 0:
      *frame.mutable_open() = OpenOf(draw(6));
      frame.mutable_open()->mutable_sampling()->set_temperature(draw(2) == 0 ? -1.0f : 0.5f);
      break;
    case 1:
      frame.mutable_fork()->set_source(draw(6));
      frame.mutable_fork()->set_target(draw(6));
      frame.mutable_fork()->set_tokens(extreme());
      break;
    case 2:
      frame.mutable_close()->set_sequence(draw(6));
      break;
    case 3:
      frame.mutable_cancel()->set_sequence(draw(6));
      break;
    default: {
      v1::Forward* forward = frame.mutable_forward();
      const uint32_t count = draw(6);
      *forward = ForwardOf(draw(5), draw(6), draw(3) == 0 ? extreme() : 0, count, 0, 8);
      if (draw(3) == 0) forward->mutable_segments(0)->add_tokens(static_cast<int32_t>(extreme()));
      if (draw(4) == 0) forward->set_activation_type(static_cast<v1::ActivationType>(draw(5)));
      if (draw(4) == 0) forward->set_activations(std::string(draw(400), 'a'));
      forward->set_fragment(draw(4) == 0 ? draw(3) : 0);
      forward->set_last(draw(3) != 0);
    }
  }
  return frame;
}

TEST_F(Malformed, RandomFramesNeverHarmTheWorker) {
  for (uint64_t round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    RawStream stream(worker_.address());
    ASSERT_TRUE(stream.Hello(1));
    for (uint64_t i = 0; i < 60; ++i) {
      if (!stream.Write(RandomFrame(round * 1000 + i))) break;
    }
  }
  const auto stream = Opened();
  ExpectUnharmed(*stream);
  EXPECT_EQ(worker_.service().NotReadyReason(), "");
}

}  // namespace
}  // namespace spillway::test
