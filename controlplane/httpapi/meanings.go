package httpapi

// meanings holds a page for each code that a problem can have; a test finds
// codes that are missing.
var meanings = map[string]meaning{
	"internal": {
		en: words{"Something broke on our side", "The server met a failure that is not your fault.", "Try again. If it stays, give the request id to support."},
		zh: words{"服务器内部错误", "服务器遇到了与您的请求无关的故障。", "请重试;如果仍然失败,请将 request_id 提供给支持人员。"},
	},
	"invalid": {
		en: words{"The request is not valid", "A value breaks a rule. `field` and `errors` name each input to blame.", "Correct the named fields and send the request again."},
		zh: words{"请求无效", "某个值不符合规则,field 和 errors 指出了有问题的输入。", "请修改所指出的字段后重新发送。"},
	},
	"unauthenticated": {
		en: words{"Nobody is signed in", "The request carries no credentials that are accepted.", "Sign in, or send an API key by HTTP Basic."},
		zh: words{"未认证", "请求没有携带有效的凭证。", "请登录,或通过 HTTP Basic 发送 API 密钥。"},
	},
	"forbidden": {
		en: words{"Not allowed", "You are known, but this is not allowed to you.", "Ask an owner of the tenant for a role that allows it."},
		zh: words{"没有权限", "身份已确认,但不允许此操作。", "请联系租户的所有者授予相应角色。"},
	},
	"not_found": {
		en: words{"There is no such object", "It does not exist, was deleted, or belongs to another tenant.", "Check the id or name."},
		zh: words{"对象不存在", "对象不存在、已删除或属于其他租户。", "请检查 ID 或名称。"},
	},
	"conflict": {
		en: words{"The object is in the way", "It exists already, or is being changed by another request.", "Read the object again, then decide."},
		zh: words{"冲突", "对象已存在,或正在被另一个请求修改。", "请重新读取对象后再操作。"},
	},
	"precondition_failed": {
		en: words{"The object was changed meanwhile", "The ETag in If-Match is not that of the present revision.", "Read the object again and repeat the change with the new ETag."},
		zh: words{"对象已被修改", "If-Match 中的 ETag 不是当前版本。", "请重新读取对象,并使用新的 ETag 重试。"},
	},
	"unprocessable": {
		en: words{"The request contradicts an earlier one", "The request cannot be carried out together with an earlier one.", "Use a fresh Idempotency-Key."},
		zh: words{"请求与之前的请求矛盾", "该请求无法与之前的请求一起执行。", "请使用新的 Idempotency-Key。"},
	},
	"quota_exceeded": {
		en: words{"A quota is used up", "The plan allows no more of these. `quota` says which, how many there may be and how many there are.", "Delete some, or ask for a higher limit."},
		zh: words{"配额已用尽", "套餐不允许创建更多此类对象,quota 字段给出名称、上限与已用量。", "请删除一些对象,或申请提高上限。"},
	},
	"rate_limited": {
		en: words{"Too many requests", "A rate limit was passed. `retry_after` says when to try again.", "Wait as long as Retry-After says, then go on more slowly."},
		zh: words{"请求过于频繁", "超过了速率限制,retry_after 给出重试时间。", "请按 Retry-After 等待后降低速率重试。"},
	},
	"unavailable": {
		en: words{"Not available right now", "A part that is needed does not answer.", "Try again after the time in Retry-After."},
		zh: words{"暂时不可用", "所需的组件没有响应。", "请在 Retry-After 之后重试。"},
	},
	"already_exists": {
		en: words{"The name is taken", "An object with this name exists already.", "Take another name, or use the one that exists."},
		zh: words{"名称已被占用", "已存在同名对象。", "请换一个名称,或使用已有对象。"},
	},
	"deletion_protected": {
		en: words{"The object is protected", "deletion_protection is on.", "Turn deletion_protection off, then delete."},
		zh: words{"对象受删除保护", "已开启 deletion_protection。", "请先关闭 deletion_protection 再删除。"},
	},
	"not_empty": {
		en: words{"The namespace is not empty", "It still has topics or groups.", "Delete its topics and groups first."},
		zh: words{"命名空间不为空", "其中仍有主题或消费组。", "请先删除其中的主题和消费组。"},
	},
	"name_invalid": {
		en: words{"The name has a wrong form", "Names have 1 to 100 of the characters A-Z a-z 0-9 _ -.", "Take a name of that form."},
		zh: words{"名称格式错误", "名称由 1 到 100 个 A-Z a-z 0-9 _ - 字符组成。", "请使用符合格式的名称。"},
	},
	"name_reserved": {
		en: words{"The name is reserved", "RocketMQ or Sluice keeps this name or prefix to itself.", "Take another name."},
		zh: words{"名称被保留", "RocketMQ 或 Sluice 保留了该名称或前缀。", "请换一个名称。"},
	},
	"queues_shrink": {
		en: words{"Queues cannot shrink", "Taking queues away would lose messages and order.", "Keep the number, or make another topic."},
		zh: words{"队列数不能减少", "减少队列会丢失消息和顺序。", "请保持队列数,或另建主题。"},
	},
	"tenant_suspended": {
		en: words{"The tenant is suspended", "A suspended tenant can look but not change, send or receive.", "Contact support about the suspension."},
		zh: words{"租户已停用", "停用的租户只能查看,不能修改或收发消息。", "请就停用事宜联系支持人员。"},
	},
	"no_tenant": {
		en: words{"No tenant", "The account belongs to no tenant any more.", "Ask to be invited, or sign up with another address."},
		zh: words{"没有租户", "该账号不再属于任何租户。", "请申请加入某个租户,或使用其他邮箱注册。"},
	},
	"credentials_missing": {
		en: words{"Credentials are missing", "The request says nothing about who sends it, or in a way that cannot be read.", "Send `Authorization: Bearer <token>`, or HTTP Basic with an API key."},
		zh: words{"缺少凭证", "请求没有说明发送者身份,或无法识别。", "请发送 Authorization: Bearer <token>,或使用 API 密钥的 HTTP Basic。"},
	},
	"credentials_invalid": {
		en: words{"Wrong mail address or password", "The two do not fit together.", "Check both, or set a new password."},
		zh: words{"邮箱或密码错误", "邮箱与密码不匹配。", "请检查后重试,或重置密码。"},
	},
	"code_invalid": {
		en: words{"The code does not work", "It is wrong, older than 10 minutes, was used before, or was tried too often.", "Ask for a new code."},
		zh: words{"验证码无效", "验证码错误、超过 10 分钟、已使用或尝试次数过多。", "请重新获取验证码。"},
	},
	"token_expired": {
		en: words{"The access token has expired", "Access tokens last 15 minutes.", "Refresh it, or ask for a new one."},
		zh: words{"访问令牌已过期", "访问令牌有效期为 15 分钟。", "请刷新或重新获取令牌。"},
	},
	"token_invalid": {
		en: words{"The access token is not accepted", "It is malformed, signed by an unknown key, or meant for something else.", "Ask for a new one with audience control."},
		zh: words{"访问令牌无效", "令牌格式错误、签名密钥未知或用途不符。", "请以 audience=control 重新获取令牌。"},
	},
	"session_invalid": {
		en: words{"The session has ended", "It was signed out, has expired, or was ended by a new password.", "Sign in again."},
		zh: words{"会话已结束", "会话已退出、过期或因修改密码而结束。", "请重新登录。"},
	},
	"refresh_reused": {
		en: words{"A refresh token was used twice", "Somebody may have copied it, so the session was ended.", "Sign in again."},
		zh: words{"刷新令牌被重复使用", "令牌可能已泄露,会话已被终止。", "请重新登录。"},
	},
	"key_invalid": {
		en: words{"The API key is not accepted", "Its id is unknown or the secret is wrong.", "Check id and secret; a lost secret needs a new key."},
		zh: words{"API 密钥无效", "密钥 ID 未知或密钥错误。", "请检查 ID 和密钥;丢失的密钥需要重新创建。"},
	},
	"key_revoked": {
		en: words{"The API key was revoked", "A revoked key never works again.", "Use another key, or make a new one."},
		zh: words{"API 密钥已吊销", "已吊销的密钥不可恢复。", "请使用其他密钥或新建密钥。"},
	},
	"key_expired": {
		en: words{"The API key has expired", "Its expires_at is over.", "Make a new key, or rotate before the end next time."},
		zh: words{"API 密钥已过期", "已超过 expires_at。", "请新建密钥,或下次在到期前轮换。"},
	},
	"key_disabled": {
		en: words{"The API key is disabled", "The key or its service account is disabled.", "Enable it again."},
		zh: words{"API 密钥已禁用", "密钥或其服务账号已被禁用。", "请重新启用。"},
	},
	"key_not_active": {
		en: words{"The API key cannot be rotated", "It was revoked, has expired, or was rotated before.", "Make a new key."},
		zh: words{"API 密钥无法轮换", "密钥已吊销、过期或已轮换过。", "请新建密钥。"},
	},
	"key_without_role": {
		en: words{"The API key has no control role", "It can send and receive, but not use this API.", "Make a key with a control_role."},
		zh: words{"API 密钥没有控制角色", "该密钥只能收发消息,不能调用此 API。", "请创建带有 control_role 的密钥。"},
	},
	"key_without_scope": {
		en: words{"The API key has no scope", "It can use this API, but not send or receive.", "Add a scope to the key."},
		zh: words{"API 密钥没有作用域", "该密钥可以调用 API,但不能收发消息。", "请为密钥添加作用域。"},
	},
	"address_not_allowed": {
		en: words{"The address is not allowed", "The key may be used only from the networks in allowed_cidrs.", "Call from an allowed network, or change the list."},
		zh: words{"来源地址不允许", "密钥只能在 allowed_cidrs 所列网络使用。", "请从允许的网络调用,或修改列表。"},
	},
	"permission_denied": {
		en: words{"The role does not allow it", "The role of the caller does not grant what this operation needs.", "Ask an owner or admin of the tenant."},
		zh: words{"角色权限不足", "调用者的角色没有此操作所需的权限。", "请联系租户的所有者或管理员。"},
	},
	"not_a_person": {
		en: words{"Only for people", "The caller is a program.", "Sign in as a person."},
		zh: words{"仅限个人用户", "调用者是程序。", "请以个人身份登录。"},
	},
	"route_not_found": {
		en: words{"There is no such route", "The path is not part of this API.", "Compare it with the API description."},
		zh: words{"路径不存在", "该路径不属于此 API。", "请对照 API 文档。"},
	},
	"method_not_allowed": {
		en: words{"The method is not allowed here", "The path exists, but not with this method.", "Use one of the methods in the Allow header."},
		zh: words{"不支持的方法", "路径存在,但不支持该方法。", "请使用 Allow 头中列出的方法。"},
	},
	"body_too_large": {
		en: words{"The body is too large", "It has more bytes than the limit in the detail.", "Send less."},
		zh: words{"请求体过大", "请求体超过了 detail 中给出的上限。", "请减小请求体。"},
	},
	"body_unreadable": {
		en: words{"The body could not be read", "The connection broke while the body was sent.", "Send the request again."},
		zh: words{"无法读取请求体", "发送请求体时连接中断。", "请重新发送。"},
	},
	"body_not_json": {
		en: words{"The body is not JSON", "It cannot be read as JSON.", "Check brackets, quotes and commas."},
		zh: words{"请求体不是 JSON", "无法按 JSON 解析。", "请检查括号、引号和逗号。"},
	},
	"body_undecodable": {
		en: words{"A value has the wrong type", "A value cannot be read as what it should be.", "Correct the named field."},
		zh: words{"值的类型错误", "某个值无法按要求的类型读取。", "请修改所指出的字段。"},
	},
	"body_empty": {
		en: words{"The message is empty", "Sluice takes no messages without a body.", "Send at least one byte."},
		zh: words{"消息为空", "Sluice 不接受没有内容的消息。", "请至少发送一个字节。"},
	},
	"page_token_invalid": {
		en: words{"The page token is not accepted", "It belongs to another list, another filter or another tenant, or was changed.", "Start again from the first page."},
		zh: words{"分页令牌无效", "令牌属于其他列表、过滤条件或租户,或已被改动。", "请从第一页重新开始。"},
	},
	"idempotency_key_reused": {
		en: words{"The Idempotency-Key was used before", "It belongs to a request with another content.", "Take a fresh key for each different request."},
		zh: words{"Idempotency-Key 已被使用", "该键属于内容不同的请求。", "请为不同请求使用新的键。"},
	},
	"idempotency_in_progress": {
		en: words{"The first request is still running", "A request with this Idempotency-Key has not ended.", "Ask again soon with the same key."},
		zh: words{"首个请求仍在执行", "带有此 Idempotency-Key 的请求尚未结束。", "请稍后使用相同的键重试。"},
	},
	"topic_read_only": {
		en: words{"The topic takes no messages", "Its perm is r.", "Change perm to rw or w."},
		zh: words{"主题不可写", "主题的 perm 为 r。", "请将 perm 改为 rw 或 w。"},
	},
	"message_type_mismatch": {
		en: words{"The message does not fit the topic's type", "FIFO topics need a message_group, DELAY topics a deliver_at; others take neither.", "Send what the topic is for, or to another topic."},
		zh: words{"消息与主题类型不符", "FIFO 主题需要 message_group,DELAY 主题需要 deliver_at,其他主题都不接受。", "请按主题类型发送,或发送到其他主题。"},
	},
	"message_too_large": {
		en: words{"The message is too large", "Body and properties have more bytes than the topic takes.", "Send less, or raise max_message_bytes."},
		zh: words{"消息过大", "消息体与属性超过主题上限。", "请减小消息,或提高 max_message_bytes。"},
	},
	"property_invalid": {
		en: words{"A property is not accepted", "Its name is reserved or has characters that cannot be carried.", "Rename it."},
		zh: words{"属性无效", "属性名被保留或包含无法携带的字符。", "请更换属性名。"},
	},
	"console_missing": {
		en: words{"This build has no console", "The program was built without it.", "Build with make build."},
		zh: words{"此构建不含控制台", "程序在构建时未包含控制台。", "请使用 make build 构建。"},
	},
}
