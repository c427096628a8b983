import { Button, Descriptions } from 'antd';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../../../api/client';
import { formatBytes } from '../../../lib/format';
import { prettyJson } from '../../../lib/json';
import { useLocale } from '../../data';
import { Copyable, CopyButton, Time } from '../../ui';

/** Text beyond this is shown when it is asked for, so that a large message does not stop the page. */
const shownAtFirst = 32 << 10;

/** Everything about one message. Bodies and numbers are shown as they were sent and copied byte for byte. */
export function MessageView({ message: m }: { message: Schemas['Message'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const properties = Object.entries(m.properties);
  return (
    <div className="message">
      <Descriptions
        size="small"
        column={{ xs: 1, lg: 2 }}
        items={[
          { key: 'id', label: t('message.id'), children: <Copyable text={m.message_id} what={t('message.id')} /> },
          { key: 'at', label: t('message.place'), children: `${m.queue} / ${m.offset}` },
          { key: 'stored', label: t('message.stored'), children: <Time at={m.stored_at} /> },
          { key: 'born', label: t('message.born'), children: <Time at={m.born_at} /> },
          { key: 'size', label: t('message.size'), children: formatBytes(m.size_bytes, locale) },
          { key: 'host', label: t('message.host'), children: m.born_host ?? t('state.none') },
          { key: 'tag', label: t('message.tag'), children: m.tag ?? t('state.none') },
          { key: 'keys', label: t('message.keys'), children: m.keys.join(' ') || t('state.none') },
          ...(m.message_group ? [{ key: 'group', label: t('message.group'), children: m.message_group }] : []),
          ...(m.deliver_at
            ? [{ key: 'deliver', label: t('message.deliver_at'), children: <Time at={m.deliver_at} /> }]
            : []),
          { key: 'again', label: t('message.reconsumed'), children: String(m.reconsume_times) },
        ]}
      />
      {properties.length > 0 && (
        <table className="properties">
          <caption>{t('message.properties')}</caption>
          <tbody>
            {properties.map(([k, v]) => (
              <tr key={k}>
                <th scope="row">{k}</th>
                <td>
                  <code>{v}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Body message={m} />
    </div>
  );
}

function Body({ message: m }: { message: Schemas['Message'] }) {
  const { t } = useTranslation();
  const [all, setAll] = useState(false);
  const binary = m.body_encoding === 'base64';
  const text = useMemo(() => (binary ? m.body : (prettyJson(m.body) ?? m.body)), [binary, m.body]);
  const long = text.length > shownAtFirst;
  return (
    <div className="code-box">
      <p className="muted">{binary ? t('message.body_base64') : t('message.body')}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll, and the keyboard must be able to do it */}
      <pre tabIndex={0}>{long && !all ? text.slice(0, shownAtFirst) : text}</pre>
      {long && !all && <Button onClick={() => setAll(true)}>{t('message.show_all')}</Button>}
      <CopyButton text={m.body} label={t('copy.label', { what: t('message.body') })} />
    </div>
  );
}
