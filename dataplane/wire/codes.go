package wire

// Request codes.
const (
	SendMessage                   int32 = 10
	PullMessage                   int32 = 11
	QueryMessage                  int32 = 12
	QueryConsumerOffset           int32 = 14
	UpdateConsumerOffset          int32 = 15
	UpdateAndCreateTopic          int32 = 17
	UpdateAndCreateTopicList      int32 = 18
	GetAllTopicConfig             int32 = 21
	UpdateBrokerConfig            int32 = 25
	GetBrokerConfig               int32 = 26
	GetBrokerRuntimeInfo          int32 = 28
	SearchOffsetByTimestamp       int32 = 29
	GetMaxOffset                  int32 = 30
	GetMinOffset                  int32 = 31
	GetEarliestMsgStoreTime       int32 = 32
	ViewMessageByID               int32 = 33
	HeartBeat                     int32 = 34
	UnregisterClient              int32 = 35
	ConsumerSendMsgBack           int32 = 36
	EndTransaction                int32 = 37
	GetConsumerListByGroup        int32 = 38
	CheckTransactionState         int32 = 39
	NotifyConsumerIDsChanged      int32 = 40
	LockBatchMQ                   int32 = 41
	UnlockBatchMQ                 int32 = 42
	GetAllConsumerOffset          int32 = 43
	GetAllDelayOffset             int32 = 45
	CheckClientConfig             int32 = 46
	GetTimerMetrics               int32 = 61
	PutKVConfig                   int32 = 100
	GetKVConfig                   int32 = 101
	DeleteKVConfig                int32 = 102
	RegisterBroker                int32 = 103
	UnregisterBroker              int32 = 104
	GetRouteInfoByTopic           int32 = 105
	GetBrokerClusterInfo          int32 = 106
	UpdateAndCreateGroup          int32 = 200
	GetAllGroupConfig             int32 = 201
	GetTopicStatsInfo             int32 = 202
	GetConsumerConnectionList     int32 = 203
	GetProducerConnectionList     int32 = 204
	WipeWritePermOfBroker         int32 = 205
	GetAllTopicListFromNamesrv    int32 = 206
	DeleteGroup                   int32 = 207
	GetConsumeStats               int32 = 208
	DeleteTopicInBroker           int32 = 215
	DeleteTopicInNamesrv          int32 = 216
	RegisterTopicInNamesrv        int32 = 217
	GetKVListByNamespace          int32 = 219
	ResetConsumerClientOffset     int32 = 220
	GetConsumerStatusFromClient   int32 = 221
	InvokeBrokerToResetOffset     int32 = 222
	GetTopicsByCluster            int32 = 224
	QueryTopicConsumeByWho        int32 = 300
	QueryConsumeTimeSpan          int32 = 303
	GetSystemTopicListFromNamesrv int32 = 304
	GetConsumerRunningInfo        int32 = 307
	ConsumeMessageDirectly        int32 = 309
	SendMessageV2                 int32 = 310
	CloneGroupOffset              int32 = 314
	UpdateNamesrvConfig           int32 = 318
	GetNamesrvConfig              int32 = 319
	SendBatchMessage              int32 = 320
	QueryDataVersion              int32 = 322
	ResumeCheckHalfMessage        int32 = 323
	SendReplyMessage              int32 = 324
	SendReplyMessageV2            int32 = 325
	PushReplyMessageToClient      int32 = 326
	AddWritePermOfBroker          int32 = 327
	QueryTopicsByConsumer         int32 = 343
	QuerySubscriptionByConsumer   int32 = 345
	GetTopicConfig                int32 = 351
	GetGroupConfig                int32 = 352
	LitePullMessage               int32 = 361
	RecallMessage                 int32 = 370
	QueryAssignment               int32 = 400
	SetMessageRequestMode         int32 = 401
	GetBrokerMemberGroup          int32 = 901
	BrokerHeartbeat               int32 = 904
	PopMessage                    int32 = 200050
	AckMessage                    int32 = 200051
	PeekMessage                   int32 = 200052
	ChangeMessageInvisibleTime    int32 = 200053
	Notification                  int32 = 200054
	PollingInfo                   int32 = 200055
	PopRollback                   int32 = 200056
	BatchAckMessage               int32 = 200151

	// Codes of Sluice itself, for the system principal only. They fit in the
	// 16 bits of the compact header.
	ApplyPolicy     int32 = 30001
	GetPolicyStatus int32 = 30002
	PullUsage       int32 = 30010
	AckUsage        int32 = 30011
	PullDenials     int32 = 30012 // ext field "ack": id of the report that is stored

	ListTransactions  int32 = 30020 // ext fields "namespace", "topic", "from", "limit"; answers a TransactionList
	SettleTransaction int32 = 30021 // see package mqclient
)

// Response codes.
const (
	Success                   int32 = 0
	SystemError               int32 = 1
	SystemBusy                int32 = 2
	RequestCodeNotSupported   int32 = 3
	FlushDiskTimeout          int32 = 10
	SlaveNotAvailable         int32 = 11
	FlushSlaveTimeout         int32 = 12
	MessageIllegal            int32 = 13
	ServiceNotAvailable       int32 = 14
	VersionNotSupported       int32 = 15
	NoPermission              int32 = 16
	TopicNotExist             int32 = 17
	TopicExistAlready         int32 = 18
	PullNotFound              int32 = 19
	PullRetryImmediately      int32 = 20
	PullOffsetMoved           int32 = 21
	QueryNotFound             int32 = 22
	SubscriptionParseFailed   int32 = 23
	SubscriptionNotExist      int32 = 24
	SubscriptionNotLatest     int32 = 25
	SubscriptionGroupNotExist int32 = 26
	FilterDataNotExist        int32 = 27
	FilterDataNotLatest       int32 = 28
	InvalidParameter          int32 = 29
	ConsumerNotOnline         int32 = 206
	ConsumeMsgTimeout         int32 = 207
	NoMessage                 int32 = 208
	PollingFull               int32 = 209
	PollingTimeout            int32 = 210
	FlowControl               int32 = 215
	IllegalOperation          int32 = 604
	GoAway                    int32 = 1500

	// PolicyStale answers ApplyPolicy when a delta does not follow the
	// revision that is here: the sender must push a snapshot.
	PolicyStale int32 = 30091
)
