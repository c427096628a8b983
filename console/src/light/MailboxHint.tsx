import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { serverURL } from '../api/client';

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Where mails are kept as files, which is only so on the user's own machine, this says where to read them. */
export function MailboxHint() {
  const { t } = useTranslation();
  const [there, setThere] = useState(false);
  useEffect(() => {
    if (!loopback.test(location.hostname)) {
      return;
    }
    const stop = new AbortController();
    fetch(serverURL('/mailbox'), { headers: { Accept: 'application/json, text/html' }, signal: stop.signal })
      .then(async (r) => r.ok && !(await r.text()).includes('<div id="root">'))
      .then(setThere, () => undefined);
    return () => stop.abort();
  }, []);
  if (!there) {
    return null;
  }
  return (
    <p className="note plain">
      {t('verify.local')}{' '}
      <a href={serverURL('/mailbox')} target="_blank" rel="noreferrer" data-testid="mailbox">
        {t('verify.mailbox')}
      </a>
    </p>
  );
}
