import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { App as AntApp, Button, ConfigProvider, Dropdown, Select, theme } from 'antd';
import en from 'antd/locale/en_US';
import zh from 'antd/locale/zh_CN';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { leave } from '../lib/leave';
import { go } from '../lib/location';
import { useDark } from '../lib/theme';
import { LanguageSelect, Mark, ThemeSelect } from '../light/ui';
import { useMay, useMe, useNamespaces } from './data';
import { Navigation, useCurrentNamespace } from './Navigation';
import { ProveAgain, useEnrolment } from './ProveAgain';
import { Reauthenticate } from './Reauthenticate';

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
        components: {
          Tabs: {
            itemSelectedColor: dark ? '#73aef4' : '#0958d9',
            itemActiveColor: dark ? '#9cc6f8' : '#0747b0',
            itemHoverColor: dark ? '#9cc6f8' : '#0747b0',
          },
        },
      }}
      // A blank between two Chinese signs of a button is no part of its name, and would make it another one.
      button={{ autoInsertSpace: false }}
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

function NamespaceSwitch() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const all = useNamespaces();
  const current = useCurrentNamespace();
  const sees = useMay('namespace:read');
  if (!sees) {
    return null;
  }
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

function AccountMenu() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const me = useMe();
  const ns = useCurrentNamespace();
  const sends = useMay('message:write', { ns }) && ns !== undefined;
  return (
    <Dropdown
      trigger={['click']}
      menu={{
        items: [
          { key: 'account', label: t('nav.account') },
          ...(sends ? [{ key: 'start', label: t('nav.start') }] : []),
          { type: 'divider' },
          { key: 'leave', label: t('nav.sign_out') },
        ],
        onClick: ({ key }) => {
          if (key === 'account') {
            void navigate({ to: '/account' });
          } else if (key === 'start') {
            go(`/start?ns=${ns}`);
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
