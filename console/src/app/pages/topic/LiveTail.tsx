import { Button, Input, Space, Table } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../../../api/client';
import { formatCount } from '../../../lib/format';
import { useTail } from '../../../lib/useTail';
import { useLocale } from '../../data';
import { Nothing, ProblemView } from '../../ui';
import { useSettled } from '../../useSettled';
import { messageColumns } from './Messages';
import { MessageView } from './MessageView';

/** Messages as they arrive. Leaving the tab ends the stream. */
export function LiveTail({ ns, topic }: { ns: string; topic: string }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const [typed, setTyped] = useState('');
  const [tag, setTag] = useState<string>();
  const [paused, setPaused] = useState(false);
  useSettled(typed, 400, (v) => setTag(/^[^|\s]+$/.test(v) ? v : undefined));
  const tail = useTail(ns, topic, { tag, paused });
  return (
    <>
      <Space wrap className="gap">
        <Input
          allowClear
          aria-label={t('tail.tag')}
          placeholder={t('tail.tag')}
          maxLength={128}
          value={typed}
          onChange={(e) => setTyped(e.target.value)}
        />
        <Button onClick={() => setPaused(!paused)} aria-pressed={paused}>
          {paused ? t('tail.go_on') : t('tail.pause')}
        </Button>
        <Button onClick={tail.clear}>{t('tail.clear')}</Button>
        <span className={`badge ${tail.state}`} role="status">
          {t(`tail.${tail.state}`)}
        </span>
        <span className="muted">
          {t('tail.counts', {
            seen: formatCount(tail.seen, locale),
            shown: formatCount(tail.messages.length, locale),
            dropped: formatCount(tail.dropped, locale),
          })}
        </span>
      </Space>
      {tail.problem ? (
        <ProblemView problem={tail.problem} />
      ) : tail.messages.length === 0 ? (
        <Nothing text={paused ? t('tail.paused') : t('tail.none')} />
      ) : (
        <Table<Schemas['Message']>
          rowKey={(m) => `${m.queue}/${m.offset}`}
          size="small"
          dataSource={tail.messages as Schemas['Message'][]}
          pagination={false}
          virtual
          scroll={{ y: 520, x: 1000 }}
          expandable={{ expandedRowRender: (m) => <MessageView message={m} /> }}
          columns={messageColumns(t)}
        />
      )}
    </>
  );
}
