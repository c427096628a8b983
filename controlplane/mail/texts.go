package mail

import (
	"context"
	"crypto/tls"
	"strings"
)

func tlsFor(host string) *tls.Config {
	return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
}

type text struct{ subject, body string }

// texts by kind and language. {code}, {tenant}, {url} are filled in.
var texts = map[string]map[string]text{
	"sign_up": {
		"en": {"Your Sluice code: {code}", "Welcome to Sluice.\n\nYour code is {code}. Enter it in the console to open the account \"{tenant}\". It works once, for 10 minutes.\n\n{url}/verify\n\nIf you did not ask for an account, ignore this mail.\n"},
		"zh": {"Sluice 验证码:{code}", "欢迎使用 Sluice。\n\n您的验证码是 {code}。请在控制台中输入它来开通“{tenant}”。验证码 10 分钟内有效,只能使用一次。\n\n{url}/verify\n\n如果您没有申请账号,请忽略此邮件。\n"},
	},
	"exists": {
		"en": {"You have a Sluice account already", "Somebody, perhaps you, asked for a Sluice account with this address. There is one already.\n\nSign in: {url}/sign-in\nForgot the password: {url}/reset-password\n"},
		"zh": {"您已有 Sluice 账号", "有人(可能是您)使用此邮箱申请 Sluice 账号,但该邮箱已经注册。\n\n登录:{url}/sign-in\n忘记密码:{url}/reset-password\n"},
	},
	"reset": {
		"en": {"Your Sluice code to set a new password: {code}", "Your code is {code}. Enter it in the console to set a new password. It works once, for 10 minutes.\n\n{url}/reset-password\n\nIf you did not ask for this, ignore this mail: nothing changes.\n"},
		"zh": {"Sluice 重置密码验证码:{code}", "您的验证码是 {code}。请在控制台中输入它来设置新密码。验证码 10 分钟内有效,只能使用一次。\n\n{url}/reset-password\n\n如果这不是您的操作,请忽略此邮件,账号不会有任何变化。\n"},
	},
	"invited": {
		"en": {"You are invited to a Sluice tenant", "You are invited to join {tenant} on Sluice.\n\nAccept: {url}/invitations/accept?token={token}\n\nThe link works once, for 7 days. If you do not know who sent this, ignore this mail: nothing happens.\n"},
		"zh": {"您收到加入 Sluice 租户的邀请", "您被邀请加入 Sluice 上的{tenant}。\n\n接受邀请:{url}/invitations/accept?token={token}\n\n链接 7 天内有效,只能使用一次。如果您不认识发送者,请忽略此邮件,不会有任何影响。\n"},
	},
	"changed": {
		"en": {"Your Sluice password was changed", "The password of your Sluice account was changed just now, and all other sessions have ended.\n\nIf this was not you, set a new one at once: {url}/reset-password\n"},
		"zh": {"您的 Sluice 密码已修改", "您的 Sluice 账号密码刚刚被修改,其他所有会话均已退出。\n\n如果这不是您的操作,请立即重置密码:{url}/reset-password\n"},
	},
	"factor_added": {
		"en": {"A second factor was added to your Sluice account", "The second factor \"{name}\" was added to your Sluice account just now.\n\nIf this was not you, set a new password at once and remove it: {url}/reset-password\n"},
		"zh": {"您的 Sluice 账号已添加多重验证", "您的 Sluice 账号刚刚添加了多重验证“{name}”。\n\n如果这不是您的操作,请立即重置密码并将其移除:{url}/reset-password\n"},
	},
	"factor_removed": {
		"en": {"A second factor was removed from your Sluice account", "The second factor \"{name}\" was removed from your Sluice account just now.\n\nIf this was not you, set a new password at once: {url}/reset-password\n"},
		"zh": {"您的 Sluice 账号已移除多重验证", "您的 Sluice 账号刚刚移除了多重验证“{name}”。\n\n如果这不是您的操作,请立即重置密码:{url}/reset-password\n"},
	},
	"factor_recovery_renewed": {
		"en": {"Your Sluice recovery codes were replaced", "New recovery codes were made for your Sluice account just now; the old ones are void.\n\nIf this was not you, set a new password at once: {url}/reset-password\n"},
		"zh": {"您的 Sluice 恢复码已更换", "您的 Sluice 账号刚刚生成了新的恢复码,旧的恢复码已失效。\n\n如果这不是您的操作,请立即重置密码:{url}/reset-password\n"},
	},
	"factor_recovery_used": {
		"en": {"A Sluice recovery code was used", "A recovery code stood in for the second factor of your Sluice account just now. It does not work again.\n\nIf this was not you, set a new password at once and make new recovery codes: {url}/reset-password\n"},
		"zh": {"您的 Sluice 恢复码已被使用", "刚刚有人使用恢复码代替了您 Sluice 账号的多重验证。该恢复码已失效。\n\n如果这不是您的操作,请立即重置密码并生成新的恢复码:{url}/reset-password\n"},
	},
	"account_closing": {
		"en": {"Your Sluice account closes", "You asked to close your Sluice account. All sessions have ended, your API keys have stopped, and tenants that have no other member are suspended.\n\nOn {until} the account is erased for good: your name, this address, your password and second factors, and those tenants with all their topics and messages.\n\nUntil then you can take it all back: {url}/reopen, or POST /v1/auth/reopen with this address and your password.\n\nIf this was not you, set a new password at once ({url}/reset-password), then reopen the account.\n"},
		"zh": {"您的 Sluice 账号即将注销", "您申请了注销 Sluice 账号。所有会话已退出,您的 API 密钥已停用,没有其他成员的租户已暂停。\n\n账号将于 {until} 永久删除,包括您的姓名、此邮箱、密码和多重验证,以及这些租户的所有主题和消息。\n\n在此之前您可以随时恢复:{url}/reopen,或将此邮箱和密码发送到 POST /v1/auth/reopen。\n\n如果这不是您的操作,请立即重置密码({url}/reset-password),然后恢复账号。\n"},
	},
	"account_reopened": {
		"en": {"Your Sluice account is open again", "Your Sluice account was reopened just now; it is as it was before.\n\nIf this was not you, set a new password at once: {url}/reset-password\n"},
		"zh": {"您的 Sluice 账号已恢复", "您的 Sluice 账号刚刚已恢复,一切与注销前相同。\n\n如果这不是您的操作,请立即重置密码:{url}/reset-password\n"},
	},
	"account_erased": {
		"en": {"Your Sluice account was erased", "The time to reopen your Sluice account is over, and it was erased, as you asked. This is the last mail about it.\n"},
		"zh": {"您的 Sluice 账号已删除", "恢复 Sluice 账号的期限已过,您的账号已按您的要求删除。这是关于该账号的最后一封邮件。\n"},
	},
	"email": {
		"en": {"Your Sluice code to use this address: {code}", "Your code is {code}. Enter it in the console to make this the mail address of your Sluice account. It works once, for 10 minutes.\n\nIf you did not ask for this, ignore this mail: nothing changes.\n"},
		"zh": {"Sluice 更换邮箱验证码:{code}", "您的验证码是 {code}。请在控制台中输入它,将此邮箱设为您 Sluice 账号的邮箱。验证码 10 分钟内有效,只能使用一次。\n\n如果这不是您的操作,请忽略此邮件,账号不会有任何变化。\n"},
	},
	"email_changed": {
		"en": {"Your Sluice mail address was changed", "The mail address of your Sluice account was changed just now from this one to {address}.\n\nIf this was you, there is nothing to do.\n\nIf this was not you, take it back within 7 days: the code is\n\n{code}\n\nEnter it at {url}/undo-email or send it with this address to POST /v1/auth/email-undo. All sessions then end; set a new password next: {url}/reset-password\n"},
		"zh": {"您的 Sluice 邮箱已更换", "您的 Sluice 账号邮箱刚刚由此地址更换为 {address}。\n\n如果这是您的操作,无需处理。\n\n如果这不是您的操作,请在 7 天内撤销,撤销码为\n\n{code}\n\n请在 {url}/undo-email 输入,或连同此邮箱一起发送到 POST /v1/auth/email-undo。所有会话将随即退出,然后请重置密码:{url}/reset-password\n"},
	},
	"leaked": {
		"en": {"An API key of \"{tenant}\" was found in public and revoked", "The secret of the API key {key} (\"{name}\") was reported as found in a public place. The key was revoked at once: programs that use it can no longer send or receive.\n\nMake another key and give it to them: {url}/keys\nThen look into the audit events for what was done with it: {url}/audit\n"},
		"zh": {"“{tenant}”的 API 密钥已泄露并被吊销", "有人报告 API 密钥 {key}(“{name}”)的 SecretKey 出现在公开场所,该密钥已立即吊销,使用它的程序不能再收发消息。\n\n请新建密钥并更换:{url}/keys\n然后在审计事件中查看它被用来做过什么:{url}/audit\n"},
	},
}

func (m *Mailer) compose(kind, locale, to string, values ...string) letter {
	t, ok := texts[kind][locale]
	if !ok {
		t = texts[kind]["en"]
	}
	fill := strings.NewReplacer(append(values, "{url}", strings.TrimRight(m.cfg.BaseURL, "/"))...)
	return letter{to: to, subject: fill.Replace(t.subject), body: fill.Replace(t.body)}
}

// SignUpCode sends the code that ends a sign-up.
func (m *Mailer) SignUpCode(_ context.Context, to, locale, tenantName, code string) error {
	return m.send(m.compose("sign_up", locale, to, "{code}", code, "{tenant}", tenantName))
}

// AccountExists tells the owner of an address that it has an account.
func (m *Mailer) AccountExists(_ context.Context, to, locale string) error {
	return m.send(m.compose("exists", locale, to))
}

// ResetCode sends the code to set a new password.
func (m *Mailer) ResetCode(_ context.Context, to, locale, code string) error {
	return m.send(m.compose("reset", locale, to, "{code}", code))
}

// NoMail does the work of a mail with a code and sends none; it fails when a
// mail would.
func (m *Mailer) NoMail(context.Context) error {
	return m.send(m.compose("reset", "en", "", "{code}", "000000"))
}

// PasswordChanged tells that a password was changed.
func (m *Mailer) PasswordChanged(_ context.Context, to, locale string) error {
	return m.send(m.compose("changed", locale, to))
}

// EmailCode sends the code that makes an address that of an account.
func (m *Mailer) EmailCode(_ context.Context, to, locale, code string) error {
	return m.send(m.compose("email", locale, to, "{code}", code))
}

// AccountChanged tells of an event of closing an account: closing, reopened or
// erased. until is when it is erased.
func (m *Mailer) AccountChanged(_ context.Context, to, locale, event, until string) error {
	return m.send(m.compose("account_"+event, locale, to, "{until}", until))
}

// EmailChanged tells the old address of a change, and how to undo it.
func (m *Mailer) EmailChanged(_ context.Context, to, locale, newAddress, undoCode string) error {
	return m.send(m.compose("email_changed", locale, to, "{address}", newAddress, "{code}", undoCode))
}

// Invitation sends the link that makes its reader a member of a tenant.
func (m *Mailer) Invitation(_ context.Context, to, locale, tenantName, token string) error {
	return m.send(m.compose("invited", locale, to, "{tenant}", safeName(locale, tenantName), "{token}", token))
}

// safeName is a name that strangers chose, fit for a mail to people who never
// asked for one: what a mail program could make a link of is left out.
func safeName(locale, name string) string {
	if strings.ContainsAny(name, "./:@。.") || strings.Contains(strings.ToLower(name), "www") {
		if locale == "zh" {
			return "一个租户"
		}
		return "a tenant"
	}
	if locale == "zh" {
		return "“" + name + "”"
	}
	return `"` + name + `"`
}

// KeyLeaked tells an owner or admin that a key was revoked because its secret
// was found in public.
func (m *Mailer) KeyLeaked(_ context.Context, to, locale, tenantName, keyID, keyName string) error {
	return m.send(m.compose("leaked", locale, to, "{tenant}", tenantName, "{key}", keyID, "{name}", keyName))
}

// FactorChanged tells of an event of second factors: added, removed,
// recovery_renewed or recovery_used. name is that of the factor.
func (m *Mailer) FactorChanged(_ context.Context, to, locale, event, name string) error {
	return m.send(m.compose("factor_"+event, locale, to, "{name}", name))
}
