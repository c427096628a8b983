/** Hours, minutes, seconds, milliseconds in this order, such as 72h or 1h30m. */
export const durationPattern = /^(?=.)(\d{1,9}h)?(\d{1,9}m)?(\d{1,9}s)?(\d{1,9}ms)?$/;
