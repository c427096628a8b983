import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router';
import { App as AntApp, Button, ConfigProvider, Dropdown, Form, Input, Modal, Select, theme } from 'antd';
import en from 'antd/locale/en_US';
import zh from 'antd/locale/zh_CN';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { proveSignIn } from '../api/mfa';
import { leave } from '../lib/leave';
import { go } from '../lib/location';
import { useDark } from '../lib/theme';
import { Go, LanguageSelect, Mark, ThemeSelect } from '../light/ui';
import { lastNamespace, rememberNamespace, useMe, useNamespaces } from './data';
import { ProveAgain, useEnrolment } from './ProveAgain';
import { ProblemView } from './ui';
import { useSave } from './useSave';

// Read at each draw: whoever asks the system for less motion gets none.
const calm = window.matchMedia('(prefers-reduced-motion: reduce)');

/** The frame of every page of the console: who, where in it, and the way to the rest. */
export function Shell() {
  const { t, i18n } = useTranslation();
  const dark = useDark();
  useEnrolment();
  return (
    <ConfigProvider
      locale={i18n.language === 'zh' ? zh : en}
      theme={{
        algorithm: dark ? theme.darkAlgorithm : theme.defaultAlgorithm,
        token: {
          colorPrimary: dark ? '#3c89e8' : '#0958d9',
          colorInfo: dark ? '#3c89e8' : '#0958d9',
          fontFamily: 'var(--sans)',
          colorLink: dark ? '#73aef4' : '#0958d9',
          colorPrimaryHover: dark ? '#65a3f0' : '#0747b0',
          colorLinkHover: dark ? '#9cc6f8' : '#0747b0',
          colorTextTertiary: dark ? '#a6afbd' : '#565e6c',
          colorTextDescription: dark ? '#a6afbd' : '#565e6c',
          colorTextPlaceholder: dark ? '#949eae' : '#646c7a',
          colorError: dark ? '#ff7b72' : '#a8201a',
          colorBgContainer: dark ? '#1b2029' : '#ffffff',
          colorBgElevated: dark ? '#232935' : '#ffffff',
          borderRadius: 8,
          motion: !calm.matches,
        },
      }}
    >
      <AntApp className="shell">
        <button type="button" className="skip" onClick={() => document.getElementById('content')?.focus()}>
          {t('nav.skip')}
        </button>
        <header className="shell-head">
          <Link to="/" className="brand">
            <Mark />
            {t('app.name')}
          </Link>
          <NamespaceSwitch />
          <div className="shell-tools">
            <LanguageSelect />
            <ThemeSelect />
            <AccountMenu />
          </div>
        </header>
        <div className="shell-body">
          <Navigation />
          <Content />
        </div>
        <ProveAgain />
        <Reauthenticate />
      </AntApp>
    </ConfigProvider>
  );
}

/** The page itself. It takes the focus when the page changes, so that keyboards and screen readers begin there. */
function Content() {
  const path = useLocation({ select: (l) => l.pathname });
  const box = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current !== path) {
      before.current = path;
      box.current?.focus({ preventScroll: true });
    }
  }, [path]);
  return (
    <main id="content" tabIndex={-1} ref={box}>
      <Outlet />
    </main>
  );
}

/** The namespace in the address, else the one looked at last, else the first. */
function useCurrentNamespace(): string | undefined {
  const { ns } = useParams({ strict: false });
  const all = useNamespaces();
  useEffect(() => {
    if (ns) {
      rememberNamespace(ns);
    }
  }, [ns]);
  if (ns) {
    return ns;
  }
  const last = lastNamespace();
  return all.data?.find((n) => n.id === last)?.id ?? all.data?.[0]?.id;
}

function NamespaceSwitch() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const all = useNamespaces();
  const current = useCurrentNamespace();
  return (
    <Select
      aria-label={t('nav.namespace')}
      className="namespace-switch"
      loading={all.isPending}
      status={all.isError ? 'error' : undefined}
      value={all.data ? current : undefined}
      placeholder={all.isError ? t('state.failed') : t('nav.namespace')}
      showSearch={{ optionFilterProp: 'label' }}
      options={all.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
      onChange={(ns: string) => void navigate({ to: '/n/$ns/topics', params: { ns } })}
      popupMatchSelectWidth={false}
    />
  );
}

function Navigation() {
  const { t } = useTranslation();
  const ns = useCurrentNamespace();
  return (
    <nav className="side" aria-label={t('nav.label')}>
      <ul>
        {ns && (
          <>
            <li>
              <Link to="/n/$ns/topics" params={{ ns }} activeOptions={{ includeSearch: false }}>
                {t('nav.topics')}
              </Link>
            </li>
            <li>
              <Link to="/n/$ns/groups" params={{ ns }} activeOptions={{ includeSearch: false }}>
                {t('nav.groups')}
              </Link>
            </li>
            <li>
              <Link to="/n/$ns/access" params={{ ns }} activeOptions={{ includeSearch: false }}>
                {t('nav.access')}
              </Link>
            </li>
          </>
        )}
        <li>
          <Link to="/namespaces" activeOptions={{ includeSearch: false }}>
            {t('nav.namespaces')}
          </Link>
        </li>
        <li>
          <Link to="/api-keys" activeOptions={{ includeSearch: false }}>
            {t('nav.keys')}
          </Link>
        </li>
        <li>
          <Link to="/usage" activeOptions={{ includeSearch: false }}>
            {t('nav.usage')}
          </Link>
        </li>
        <li>
          <Link to="/costs" activeOptions={{ includeSearch: false }}>
            {t('nav.costs')}
          </Link>
        </li>
        <li>
          <Link to="/quotas">{t('nav.quotas')}</Link>
        </li>
        <li>
          <Link to="/members">{t('nav.members')}</Link>
        </li>
        <li>
          <Link to="/audit" activeOptions={{ includeSearch: false }}>
            {t('nav.audit')}
          </Link>
        </li>
        <li>
          <Link to="/account">{t('nav.account')}</Link>
        </li>
        <li>
          <Go to={ns ? `/start?ns=${ns}` : '/start'}>{t('nav.start')}</Go>
        </li>
      </ul>
    </nav>
  );
}

function AccountMenu() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const me = useMe();
  return (
    <Dropdown
      trigger={['click']}
      menu={{
        items: [
          { key: 'account', label: t('nav.account') },
          { key: 'start', label: t('nav.start') },
          { type: 'divider' },
          { key: 'leave', label: t('nav.sign_out') },
        ],
        onClick: ({ key }) => {
          if (key === 'account') {
            void navigate({ to: '/account' });
          } else if (key === 'start') {
            go('/start');
          } else {
            void leave();
          }
        },
      }}
    >
      <Button aria-haspopup="menu" data-testid="account-menu">
        {me.data?.email ?? me.data?.name ?? t('nav.account')}
      </Button>
    </Dropdown>
  );
}

/** Lets a user whose session ended sign in again on the spot, so that a form half filled in is not lost. */
function Reauthenticate() {
  const { t } = useTranslation();
  const state = useSyncExternalStore(session.subscribe, () => session.state);
  const queries = useQueryClient();
  const me = useMe();
  const who = useRef<string | undefined>(undefined);
  who.current = me.data?.id ?? who.current;
  const [form] = Form.useForm<{ email: string; password: string; code?: string }>();
  const [awaited, setAwaited] = useState<string>();
  const [other, setOther] = useState(false);
  const { busy, problem, save } = useSave<{ email: string; password: string; code?: string }>(form, async (v) => {
    let grant = awaited ? await proveSignIn(awaited, v.code ?? '') : undefined;
    if (!grant) {
      const answer = await got(api.POST('/v1/auth/sign-in', { body: { email: v.email, password: v.password } }));
      if ('mfa_token' in answer) {
        setAwaited(answer.mfa_token);
        return;
      }
      grant = answer;
    }
    setAwaited(undefined);
    if (who.current && grant.user_id !== who.current) {
      // What is on the screen belongs to somebody else.
      setOther(true);
      session.adopt(grant);
      location.reload();
      return;
    }
    session.adopt(grant);
    form.resetFields(['password', 'code']);
    await queries.invalidateQueries();
  });
  return (
    <Modal
      open={state === 'expired' && !other}
      zIndex={2000}
      title={t('reauth.title')}
      closable={false}
      mask={{ closable: false }}
      keyboard={false}
      okText={t('sign_in.submit')}
      cancelText={t('nav.sign_out')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={() => void leave()}
    >
      <p>{t('reauth.text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="reauth" layout="vertical" onFinish={save} initialValues={{ email: me.data?.email }}>
        <Form.Item name="email" label={t('form.email')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="email" autoComplete="username" />
        </Form.Item>
        <Form.Item name="password" label={t('form.password')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="password" autoComplete="current-password" />
        </Form.Item>
        {awaited && (
          <Form.Item name="code" label={t('sign_in.code')} rules={[{ required: true, message: t('form.required') }]}>
            <Input autoComplete="one-time-code" autoFocus />
          </Form.Item>
        )}
      </Form>
    </Modal>
  );
}
