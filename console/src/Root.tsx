import { lazy, type ReactNode, Suspense, useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { session } from './api/client';
import { type ApiProblem, asProblem } from './api/problem';
import { loadConsoleTexts } from './i18n';
import { go, pathOf, useAddress } from './lib/location';
import { Boundary } from './light/Boundary';
import { SignIn } from './light/SignIn';
import { SignUp } from './light/SignUp';
import { Button, LightPage, ProblemNote } from './light/ui';
import { isLightPath } from './paths';

const Verify = lazy(() => import('./light/Verify').then((m) => ({ default: m.Verify })));
const PasswordReset = lazy(() => import('./light/PasswordReset').then((m) => ({ default: m.PasswordReset })));
const Accept = lazy(() => import('./light/Accept').then((m) => ({ default: m.Accept })));
const Start = lazy(() => import('./light/Start').then((m) => ({ default: m.Start })));
const Reopen = lazy(() => import('./light/Reopen').then((m) => ({ default: m.Reopen })));
const UndoEmail = lazy(() => import('./light/UndoEmail').then((m) => ({ default: m.UndoEmail })));
const App = lazy(async () => {
  const [m] = await Promise.all([import('./app/App'), loadConsoleTexts()]);
  return { default: m.App };
});

/**
 * Chooses between the light pages, which come without router, query cache and component library, and the console,
 * which brings them.
 */
export function Root() {
  const { path } = useAddress();
  const page = path.replace(/\/$/, '');
  // The console keeps its router and cache while the address changes inside it.
  return (
    <Boundary key={isLightPath(page) ? page : 'console'}>
      <Suspense fallback={<Loading />}>{pageAt(page)}</Suspense>
    </Boundary>
  );
}

function pageAt(page: string): ReactNode {
  if (!isLightPath(page)) {
    return (
      <SignedIn>
        <App />
      </SignedIn>
    );
  }
  switch (page) {
    case '/sign-up':
      return <SignUp />;
    case '/verify':
      return <Verify />;
    case '/sign-in':
      return <SignIn />;
    case '/password-reset':
    case '/reset-password':
      return <PasswordReset />;
    case '/invitations/accept':
      return <Accept />;
    case '/reopen':
      return <Reopen />;
    case '/undo-email':
      return <UndoEmail />;
    case '/start':
      return (
        <SignedIn>
          <Start />
        </SignedIn>
      );
  }
}

function Loading() {
  const { t } = useTranslation();
  return (
    <p className="boot" role="status">
      {t('state.loading')}
    </p>
  );
}

/** Shows its children to a user with a session; finds it again after a reload, or asks to sign in. */
function SignedIn({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const state = useSyncExternalStore(session.subscribe, () => session.state);
  const [problem, setProblem] = useState<ApiProblem>();
  const resume = useCallback(() => {
    setProblem(undefined);
    session.resume().catch((err) => setProblem(asProblem(err)));
  }, []);

  useEffect(() => {
    if (state === 'unknown') {
      resume();
    } else if (state === 'signed_out') {
      const here = pathOf(location.pathname) + location.search;
      go(here === '/' ? '/sign-in' : `/sign-in?next=${encodeURIComponent(here)}`, 'replace');
    }
  }, [state, resume]);

  if (problem) {
    return (
      <LightPage title={t('state.failed')}>
        <ProblemNote problem={problem} />
        <Button onClick={resume}>{t('state.retry')}</Button>
      </LightPage>
    );
  }
  return state === 'signed_in' || state === 'expired' ? children : <Loading />;
}
