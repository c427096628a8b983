package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// Code says why the core refused. Each front translates it by Remoting or
// GRPC, never by text.
type Code uint8

// The codes.
const (
	CodeInternal Code = iota
	CodeTopicNotFound
	CodeGroupNotFound
	CodeNoPermission     // perm bit of the topic, or the group may not consume
	CodeInvalidParameter // queue id, offset, name
	CodeIllegalMessage
	CodeBodyTooLarge
	CodePropertiesTooLarge
	CodeNotYet // a kind of message that this broker does not take yet
	CodeBadFilter
	CodeMessageNotFound
	CodeBadReceipt
	CodeBadInvisibleTime
	CodeBusy
	CodeTooManyPolls
	CodeUnavailable // disk full, closing
	CodeFlushTimeout
	CodeNotOnline
	CodeNoSubscription
	CodeOldSubscription // the heartbeat's is older than the request's
	CodeTransactionUnknown
	CodeTransactionEnded // the other way
	CodeIllegalDelay     // further ahead than a message can wait
	CodeBadRecall
	CodeRecallLate // the message's time has come
	codeCount
)

// codeTable is the one place where a code meets the protocols: name, remoting
// response code, gRPC status code.
var codeTable = [codeCount]struct {
	name     string
	remoting int32
	grpc     int32
}{
	CodeInternal:           {"internal", 1, 50001},
	CodeTopicNotFound:      {"topic_not_found", 17, 40402},
	CodeGroupNotFound:      {"group_not_found", 26, 40403},
	CodeNoPermission:       {"not_permitted", 16, 40300},
	CodeInvalidParameter:   {"invalid_parameter", 29, 40000},
	CodeIllegalMessage:     {"message_illegal", 13, 40016},
	CodeBodyTooLarge:       {"body_too_large", 13, 41301},
	CodePropertiesTooLarge: {"properties_too_large", 13, 43101},
	CodeNotYet:             {"not_supported_yet", 13, 40014},
	CodeBadFilter:          {"filter_invalid", 23, 40010},
	CodeMessageNotFound:    {"message_not_found", 1, 40401},
	CodeBadReceipt:         {"receipt_handle_invalid", 208, 40013},
	CodeBadInvisibleTime:   {"invisible_time_invalid", 29, 40011},
	CodeBusy:               {"broker_busy", 2, 42900},
	CodeTooManyPolls:       {"too_many_polls", 209, 42900},
	CodeUnavailable:        {"unavailable", 14, 50001},
	CodeFlushTimeout:       {"flush_timeout", 10, 50401},
	CodeNotOnline:          {"consumer_not_online", 206, 40400},
	CodeNoSubscription:     {"subscription_missing", 24, 40000},
	CodeOldSubscription:    {"subscription_not_latest", 25, 40000},
	CodeIllegalDelay:       {"delay_illegal", 13, 40012},
	CodeBadRecall:          {"recall_handle_invalid", 604, 40000},
	CodeRecallLate:         {"recall_too_late", 604, 40401},
	CodeTransactionUnknown: {"transaction_unknown", 1, 40008},
	CodeTransactionEnded:   {"transaction_ended", 604, 40008},
}

func (c Code) String() string {
	if c >= codeCount {
		return codeTable[CodeInternal].name
	}
	return codeTable[c].name
}

// Remoting is the response code of the remoting protocol.
func (c Code) Remoting() int32 { return codeTable[min(c, codeCount-1)].remoting }

// GRPC is the status code of the gRPC protocol.
func (c Code) GRPC() int32 { return codeTable[min(c, codeCount-1)].grpc }

// Error is a refusal of the core. Its text may be shown to the caller: it
// holds only what the caller itself sent, and names in Topic and Group, which
// are physical and shown through the caller's view.
type Error struct {
	Code  Code
	Text  string // what happened and how to fix it, without names
	Topic string // physical name, if one is to blame
	Group string // physical name, if one is to blame
	Limit string
	Err   error // cause, for the log
}

func (e *Error) Error() string {
	s := e.Text
	if e.Topic != "" {
		s += ": topic " + e.Topic
	}
	if e.Group != "" {
		s += ": group " + e.Group
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

func topicNotFound(topic string) *Error {
	return &Error{Code: CodeTopicNotFound, Text: "the topic does not exist: create it first", Topic: topic}
}

func groupNotFound(group string) *Error {
	return &Error{Code: CodeGroupNotFound, Text: "the consumer group does not exist: create it first", Group: group}
}

// CodeOf returns the code of an error of this package, CodeInternal for any
// other error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// storeErrors translates sentinel errors of the store, first match wins.
var storeErrors = []struct {
	err  error
	code Code
	text string
}{
	{store.ErrMessageTooLarge, CodeBodyTooLarge, "the message body is too large"},
	{message.ErrBodyTooLarge, CodeBodyTooLarge, "the message body is too large"},
	{store.ErrPropertiesTooLarge, CodePropertiesTooLarge, "the message properties exceed 32767 bytes"},
	{store.ErrProperties, CodeIllegalMessage, "the message properties hold a zero byte"},
	{store.ErrTopic, CodeInvalidParameter, "the topic name is empty or too long"},
	{store.ErrName, CodeInvalidParameter, "the name is not allowed"},
	{store.ErrQueueID, CodeInvalidParameter, "the queue id is negative"},
	{store.ErrBatch, CodeIllegalMessage, "messages of a batch must share topic and queue"},
	{store.ErrUnsupported, CodeIllegalMessage, "the topic's queue type is not supported"},
	{store.ErrDiskFull, CodeUnavailable, "the disk is full: messages are refused until space is free"},
	{store.ErrBusy, CodeBusy, "the broker is busy: try again"},
	{store.ErrFailed, CodeUnavailable, "the store failed and takes no messages until the broker restarts"},
	{store.ErrClosed, CodeUnavailable, "the broker is shutting down"},
	{store.ErrBuilding, CodeBusy, "the queue is being built anew after damage: try again later"},
	{store.ErrIndexing, CodeBusy, "the key index is being built: try again later"},
	{store.ErrNotFound, CodeMessageNotFound, "there is no message at this offset"},
	{context.DeadlineExceeded, CodeFlushTimeout, "the message was stored, but its sync did not end in time"},
}

// fromStore turns a store error into one of ours.
func fromStore(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range storeErrors {
		if errors.Is(err, e.err) {
			return &Error{Code: e.code, Text: e.text, Err: err}
		}
	}
	return &Error{Code: CodeInternal, Text: "internal error", Err: err}
}
